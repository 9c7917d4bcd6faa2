"""Scenarios step by step, for broken rules that the search finds late or never (evidence/bugs).

Each is played twice: with the rule it ends well, without it the referee accuses. Times are in seconds.
Every message takes a millisecond, a lease a second: it is valid for 0.988 s, an acquisition may take 0.333 s
(D), and a healed key counts at once until 0.643 s after the round that the lease counts from.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from rlock.rules import keys
from rlock.rules.options import ClientOptions, LockOptions

from ..bugs import broken
from .client import Client
from .hosts import EPOCH_US
from .referee import Referee
from .stage import NAME, Stage

LONG = ClientOptions(ttl=4.0, max_ttl=4.0, request_timeout=0.3)

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


#: A lease of 4 s.
LONG_LEASE = LockOptions(NAME, LONG.lease(None))


def _handed_to(stage: Stage, *, hold_s: float, held_up_until: float) -> Client:
    """A waiter with a lease of 4 s is handed the lock at 0.25. Its confirmation is held up."""
    holder, waiter = stage.client(options=LONG), stage.client(options=LONG)
    stage.takes(holder, 0.0, hold_s=5.0, options=LONG_LEASE)
    stage.waits(waiter, 0.05, hold_s=hold_s, options=LONG_LEASE)
    for master in range(3):
        stage.holds_up(waiter, master, 0.2, held_up_until)
    stage.releases(holder, 0.25)
    return waiter


def lapsed_lease(stage: Stage) -> Referee:
    """The tokens of 1 and 2 are 30 s ahead. A waiter is handed the lock by 0 and 1, and is stopped.

    Each token that is agreed on fails to reach 0. A dead contender's key keeps 2 taken until 1.0. The
    waiter's commands arrive at 0 after another client has had the lock there.
    """
    holder, waiter, third, dead = (stage.client(options=LONG) for _ in range(4))
    for host in stage.world.hosts[1:]:
        host.master.write(keys.fence(NAME), f"{EPOCH_US + 30_000_000} somebody:else", "3600000")
    for master in (0, 1):
        stage.holds_up(dead, master, 0.0, 9.0)
    stage.takes(dead, 0.05, hold_s=9.0)
    stage.at(0.15, dead.kill)
    stage.takes(holder, 0.2, hold_s=9.0, options=LONG_LEASE)
    stage.loses_token(0, 0.3)
    stage.waits(waiter, 0.3, hold_s=2.0, options=LONG_LEASE)
    stage.holds_up(waiter, 0, 0.4, 2.2)
    stage.releases(holder, 0.5)
    stage.at(0.6, waiter.stop)
    stage.takes(third, 1.7, hold_s=9.0, options=LONG_LEASE)
    stage.releases(third, 1.8)
    stage.loses_token(0, 1.9)
    stage.at(2.4, waiter.resume)
    return stage.play(3.2)


def token_of_an_old_message(stage: Stage) -> Referee:
    """A waiter does not run. The release reaches master 0 at once, and 1 when another client had 0 and 2."""
    holder, waiter, third = (stage.client(options=LONG) for _ in range(3))
    stage.holds_up(holder, 2, 0.0, 9.0)
    stage.takes(holder, 0.05, hold_s=9.0, options=LONG_LEASE)
    stage.waits(waiter, 0.1, hold_s=0.5, options=LONG_LEASE)
    stage.at(0.2, waiter.stop)
    stage.holds_up(holder, 1, 0.2, 1.75)
    stage.releases(holder, 0.3)
    stage.takes(third, 1.4, hold_s=9.0, options=LONG_LEASE)
    stage.releases(third, 1.5)
    stage.at(1.85, waiter.resume)
    return stage.play(2.5)


def token_of_one_without_the_lock(stage: Stage) -> Referee:
    """The token of master 1 is 30 s ahead. The holder has 0 and 1, and its token is lost on the way to 0.

    The other one has got a lower token from 2 before that, and gets 0 when it is released there.
    """
    fence = keys.fence(NAME)
    stage.world.hosts[1].master.write(fence, f"{EPOCH_US + 30_000_000} somebody:else", "3600000")
    stage.holds_up(stage.other, 0, 0.0, 0.25)
    stage.holds_up(stage.other, 1, 0.0, 9.0)
    stage.takes(stage.other, 0.1105, hold_s=0.1)
    stage.takes(stage.holder, 0.11, hold_s=9.0)
    stage.cuts(stage.holder, 0, 0.1121)
    stage.holds_up(stage.holder, 2, 0.0, 0.112)
    stage.releases(stage.holder, 0.15)
    return stage.play(1.0)


#: By the rule that is left out: what is played, and how many get the lock, one after another, with the rule.
SCENARIOS: dict[str, tuple[Callable[[Stage], Referee], int]] = {
    "naive healing": (heal_with_a_lost_vote, 2),
    "no limit to an acquisition": (win_after_a_long_round, 1),
    "lapsed lease is proven": (lapsed_lease, 3),
    "token of an old message": (token_of_an_old_message, 3),
    "token of one without the lock": (token_of_one_without_the_lock, 1),
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


def test_an_evicted_holder_does_not_come_back_by_its_late_confirmation() -> None:
    def comes_back() -> bool:
        stage = Stage()
        waiter = _handed_to(stage, hold_s=9.0, held_up_until=1.0)
        stage.at(0.5, lambda: stage.other.thread().start(stage.other.evict(NAME)))
        stage.play(2.0)
        owned = any(waiter.holds.remaining(hold) for hold in waiter.holds)
        return owned or stage.world.left(NAME) != {}

    assert not comes_back()
    with broken("eviction that comes undone"):
        assert comes_back()


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
