"""Scenarios step by step, for the two broken rules of healing (evidence/bugs).

Each is played twice: with the rule it ends well, without it the referee accuses. Times are in seconds.
Every message takes a millisecond, a lease a second: it is valid for 0.988 s, an acquisition may take 0.333 s
(D), and a healed key counts at once until 0.643 s after the round that the lease counts from.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ..bugs import broken
from .referee import Referee
from .stage import Stage

SHAKES = 100


def heal_with_a_lost_vote(stage: Stage) -> Referee:
    """The counter-example of twelve steps against healing without a limit.

    The holder has masters 0 and 1; what it sends to 0 arrives no more, its key there will end at 1.0. The
    other one gets the vote of 2 at 0.75, which 2 then forgets: it restarts. The holder puts its key back
    there, and has 1 and 2; the other one gets 0 when the key there has ended, and has 2 and 0.
    """
    stage.holds_up(stage.holder, 2, 0.0, 0.765)
    stage.takes(stage.holder, 0.0, hold_s=5.0)
    stage.holds_up(stage.holder, 0, 0.01, 5.0)
    stage.holds_up(stage.other, 0, 0.7, 1.01)
    stage.takes(stage.other, 0.75, hold_s=0.1)
    stage.at(0.76, stage.world.hosts[2].restart)
    return stage.play(1.2)


def win_after_a_long_round(stage: Stage) -> Referee:
    """The same against an acquisition that may take as long as its lease.

    The holder puts its key back at 0.55, so early that it may count. The other one's vote of 2 is from 0.50;
    its connection to 0 breaks, and it sends again, and so has the vote of 0 at 1.01, for one round.
    """
    stage.holds_up(stage.holder, 2, 0.0, 0.505)
    stage.takes(stage.holder, 0.0, hold_s=5.0)
    for master in (0, 2):
        stage.holds_up(stage.holder, master, 0.01, 5.0 if master == 0 else 0.505)
        stage.cuts(stage.holder, master, 0.02)
    stage.holds_up(stage.other, 0, 0.4, 1.005)
    stage.holds_up(stage.other, 1, 0.4, 2.0)
    stage.takes(stage.other, 0.5, hold_s=0.1)
    stage.at(0.503, stage.world.hosts[2].restart)
    stage.cuts(stage.other, 0, 0.75)
    return stage.play(1.3)


#: By the rule that is left out: what is played, and how many get the lock, one after another, with the rule.
SCENARIOS: dict[str, tuple[Callable[[Stage], Referee], int]] = {
    "naive healing": (heal_with_a_lost_vote, 2),
    "no limit to an acquisition": (win_after_a_long_round, 1),
}


@pytest.mark.parametrize("rule", SCENARIOS)
def test_it_is_safe_with_the_rule(rule: str) -> None:
    """Also if all comes a little sooner or later."""
    play, grants = SCENARIOS[rule]
    assert len(play(Stage()).entered) == grants
    for dice in (None, *map(Random, range(SHAKES))):
        assert play(Stage(dice)).violations == []


@pytest.mark.parametrize("rule", SCENARIOS)
def test_it_is_violated_without_the_rule(rule: str) -> None:
    with broken(rule):
        assert SCENARIOS[rule][0](Stage()).violations


def test_a_waiter_that_subscribed_to_an_old_primary_hears_of_releases() -> None:
    """Behind the address for its commands it is told a stale one. The old primary is a replica later."""
    stage = Stage(replicas=1)
    group, (old, new) = stage.world.groups[0], stage.world.groups[0].servers
    stage.waits(stage.holder, 0.1, hold_s=1.6)
    stage.at(0.5, lambda: group.promote(new))
    stage.waits(stage.client(joined=False), 0.6, hold_s=0.1)
    for when, named in ((0.606, old), (0.7, new)):
        stage.at(when, lambda named=named: vars(stage.world).update(named=lambda _: named))  # type: ignore[misc]
    stage.at(0.8, lambda: old.follow(new, kill=False))
    referee = stage.play(3.0)
    assert referee.entered[1].at - referee.left[0].at < 0.05, "it came by looking"
