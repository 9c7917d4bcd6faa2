"""Scenarios step by step: the shortest ways in which a rule that is broken gives a lock to two owners.

Each is played twice: with the rule it ends well, without it the referee sees two valid leases. Times are in
seconds, every message takes a millisecond, a lease a second: it is valid for 0.988 s, an acquisition may take
0.333 s (D), and a healed key counts at once until 0.643 s after the round that the lease counts from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest

from rlock.rules import commands, keys
from rlock.rules.options import ClientOptions, LockOptions

from ..bugs import broken
from . import directed_failovers as failovers
from .client import Client, cycle
from .events import Latency
from .hosts import EPOCH_US
from .referee import Referee
from .stage import FIXED, NAME, Stage
from .world import Network, World

#: Two values of max_ttl in one fleet.
LONG = ClientOptions(ttl=4.0, max_ttl=4.0, request_timeout=0.3)
SHORT = ClientOptions(ttl=0.3, max_ttl=0.3, request_timeout=0.08)

SHAKES = 100


def harm_done(referee: Referee) -> bool:
    """Whether two leases were valid at once, or a held lock was called free."""
    harm = ("two valid leases", "valid after all, beside a later one", "called free while it was held")
    return any(violation.what in harm for violation in referee.violations)


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


def flush_that_another_one_noticed(stage: Stage, *, reconnects: bool = False) -> Referee:
    """A master is flushed; one client notices, and writes the note anew; another one finds it changed.

    The holder has masters 0 and 1, and the latter forgets it. The first to ask learns of that by the missing
    note, and has it written. Who asks after that finds a note, in the same life of the server.
    """
    stage.holds_up(stage.holder, 2, 0.0, 3.0)
    stage.takes(stage.holder, 0.01, hold_s=2.0, options=FIXED)
    stage.at(0.1, stage.world.hosts[1].flush)
    first = stage.client()
    stage.takes(first, 0.11, hold_s=0.0)
    if reconnects:
        stage.cuts(stage.other, 1, 0.12)
    # The first try finds that the connection has ended, and has it made again.
    for when in (0.2, 0.25):
        stage.takes(stage.other, when, hold_s=0.1)
    return stage.play(0.9)


def restart_with_an_old_memory(stage: Stage) -> Referee:
    """A master comes back with a snapshot from before the grant, and with the note that stood in it."""
    stage.holds_up(stage.holder, 2, 0.0, 3.0)
    host, kept = stage.world.hosts[1], stage.world.hosts[1].snapshot()
    stage.takes(stage.holder, 0.01, hold_s=2.0, options=FIXED)
    stage.at(0.1, lambda: host.restart(snapshot=kept))
    for when in (0.2, 0.25):
        stage.takes(stage.other, when, hold_s=0.1)
    return stage.play(0.9)


def longer_lease_that_one_master_tells_of(stage: Stage) -> Referee:
    """A lease of 4 s on masters 0 and 1, which forget it; a client whose max_ttl is 0.3 s connects before.

    When it asks, the memory of 1 is older than 0.3 s and a margin, and younger than 4 s. In the same round,
    behind the vote of 1, it hears of such leases from 2.
    """
    holder = stage.client(options=LONG)
    # A renewal of another lock notes such a lease there, when that other client has looked around.
    note = f"{stage.world.hosts[2].term} 0 4000"
    stage.at(0.9, lambda: stage.world.hosts[2].master.write(keys.NOTE, note))
    stage.holds_up(holder, 2, 0.0, 9.0)
    stage.takes(holder, 0.1, hold_s=5.0, options=LockOptions(NAME, LONG.lease(None), renew=False))
    for host in stage.world.hosts[:2]:
        stage.at(0.2, host.flush)
    late: list[Client] = []

    def connect() -> None:
        other = stage.client(options=SHORT)
        other.ways[0][0].held_until = 9.0
        other.ways[2][1].extra = 0.02
        late.append(other)

    stage.at(0.0, connect)
    stage.at(0.35, lambda: stage.looks(late[0], 0.35))
    short = LockOptions(NAME, SHORT.lease(None))
    stage.at(1.8, lambda: stage.takes(late[0], 1.8, hold_s=0.1, options=short))
    return stage.play(2.5)


def stop_before_the_messages(stage: Stage) -> Referee:
    """A waiter does not run when the lock is handed to it. Its keys are nearly over when it goes on."""
    stage.takes(stage.holder, 0.0, hold_s=5.0)
    stage.waits(stage.other, 0.05, hold_s=0.5)
    stage.at(0.1, stage.other.stop)
    stage.releases(stage.holder, 0.15)
    for master in range(3):
        stage.holds_up(stage.other, master, 0.2, 3.0)
    stage.at(1.0, stage.other.resume)
    stage.takes(stage.client(), 1.25, hold_s=0.1)
    return stage.play(1.6)


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


def confirmation_that_is_lost(stage: Stage) -> Referee:
    """The confirmation of a waiter never arrives. Another client asks after the claim time."""
    _handed_to(stage, hold_s=3.0, held_up_until=5.0)
    stage.takes(stage.client(options=LONG), 1.4, hold_s=0.1, options=LONG_LEASE)
    return stage.play(2.0)


def confirmation_that_comes_late(stage: Stage) -> Referee:
    """The waiter is stopped. Its confirmation arrives when another client has had the lock."""
    waiter = _handed_to(stage, hold_s=1.85, held_up_until=1.8)
    stage.at(0.35, waiter.stop)
    third = stage.client(options=LONG)
    stage.takes(third, 1.4, hold_s=5.0, options=LONG_LEASE)
    stage.releases(third, 1.6)
    stage.at(2.0, waiter.resume)
    return stage.play(2.5)


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


@dataclass(frozen=True)
class Scenario:
    """What is played, and how many get the lock, one after another, if all goes well."""

    play: Callable[[Stage], Referee]
    grants: int
    #: The same without the rule.
    broken: int = 2
    #: Of a group that is the only master; 0: three masters.
    replicas: int = 0

    def on(self, dice: Random | None = None) -> Referee:
        return self.play(Stage(dice, replicas=self.replicas))


SCENARIOS = {
    "naive healing": Scenario(heal_with_a_lost_vote, 2),
    "no limit to an acquisition": Scenario(win_after_a_long_round, 1),
    "life not compared": Scenario(restart_with_an_old_memory, 1),
    "votes judged once": Scenario(longer_lease_that_one_master_tells_of, 1),
    "hand-off counted from its receipt": Scenario(stop_before_the_messages, 2, 3),
    "hand-off for a whole lease": Scenario(confirmation_that_is_lost, 3, 3),
    "any answer confirms": Scenario(confirmation_that_comes_late, 3, 3),
    "replicas ignored": Scenario(failovers.stale_primary, 1, replicas=1),
    "one replica is enough": Scenario(failovers.late_follower, 1, replicas=2),
    "more replicas than configured": Scenario(failovers.added_replica, 1, replicas=2),
    "replication not compared": Scenario(partial(failovers.fail_back, kill=False), 1, replicas=1),
    "note without replication": Scenario(failovers.fail_back, 1, replicas=1),
    "WAIT for nothing": Scenario(failovers.stale_answer, 1, 1, replicas=2),
}


@pytest.mark.parametrize("rule", SCENARIOS)
def test_it_is_safe_with_the_rule(rule: str) -> None:
    scenario = SCENARIOS[rule]
    referee = scenario.on()
    assert referee.violations == []
    assert len(referee.entered) == scenario.grants


@pytest.mark.parametrize("rule", SCENARIOS)
def test_it_is_violated_without_the_rule(rule: str) -> None:
    with broken(rule):
        referee = SCENARIOS[rule].on()
    assert harm_done(referee)
    assert len(referee.entered) == SCENARIOS[rule].broken


@pytest.mark.parametrize("rule", SCENARIOS)
def test_it_is_safe_with_the_rule_whatever_comes_a_little_sooner_or_later(rule: str) -> None:
    unsafe = 0
    for seed in range(SHAKES):
        referee = SCENARIOS[rule].on(Random(seed))
        assert referee.violations == [], f"seed {seed}"
        with broken(rule):
            unsafe += harm_done(SCENARIOS[rule].on(Random(seed)))
    assert unsafe, "none of them comes near the danger"


@pytest.mark.parametrize(
    ("rule", "play", "grants"),
    [
        ("lapsed lease is proven", lapsed_lease, 3),
        ("token of an old message", token_of_an_old_message, 3),
        ("token of one without the lock", token_of_one_without_the_lock, 1),
    ],
)
def test_tokens_and_confirmations_are_votes_with_all_that_is_in_them(
    rule: str, play: Callable[[Stage], Referee], grants: int
) -> None:
    assert len(play(Stage()).entered) == grants
    for dice in (None, *map(Random, range(SHAKES // 5))):
        assert play(Stage(dice)).violations == []
    with broken(rule):
        assert play(Stage()).violations


def test_an_evicted_holder_does_not_come_back_by_its_late_confirmation() -> None:
    def comes_back() -> bool:
        stage = Stage()
        waiter = _handed_to(stage, hold_s=9.0, held_up_until=1.0)
        stage.at(0.5, lambda: stage.other.thread().start(stage.other.evict(NAME)))
        stage.play(2.0)
        owned = any(hold.lease.remaining(waiter.clock()) for hold in waiter.holds)
        return owned or stage.world.left(NAME) != {}

    assert not comes_back()
    with broken("eviction that comes undone"):
        assert comes_back()


@pytest.mark.parametrize("set_back_s", [0.0, 7200.0], ids=["true clock", "clock set back"])
@pytest.mark.parametrize("durable", [False, True], ids=["forgetful", "durable"])
@pytest.mark.parametrize("reconnects", [False, True], ids=["connected", "connected anew"])
def test_a_flush_that_another_client_has_noticed_counts_for_all(
    reconnects: bool, durable: bool, set_back_s: float
) -> None:
    """Behind a clock that was set back the memory after the flush has an earlier date than the one before."""
    stage = Stage(durable=durable)
    stage.at(0.05, lambda: stage.world.hosts[1].step(-set_back_s))
    referee = flush_that_another_one_noticed(stage, reconnects=reconnects)
    assert not harm_done(referee)
    assert len(referee.entered) == 1


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


@pytest.mark.parametrize("masters", [3, 5])
def test_votes_of_dead_contenders_delay_nobody_behind_the_lease_of_a_dead_holder(masters: int) -> None:
    """They last longer than its lease, on all masters that it needs not. A waiter looks at them, too."""
    late = [late_behind_a_dead_holder(masters, seed, threads=1 + seed % 2) for seed in range(40)]
    assert 0.0 <= min(late) <= max(late) < 0.1


def late_behind_a_dead_holder(masters: int, seed: int, threads: int) -> float:
    """How long after the end of its lease on the masters a waiter enters."""
    dice, exactly = Random(seed), Latency(0.001, 0.0)
    world = World(masters, seed, Network(exactly, exactly, exactly))
    options, hosts = LockOptions(NAME, LONG.lease(None), fair=True), world.hosts
    for host in hosts[masters // 2 + 1 :]:
        host.master.run(commands.acquire(NAME, keys.owner_token("dead/1/main"), 40_000))
    holder, waiter = (world.client(LONG) for _ in range(2))
    owner, waiting = holder.thread(), [waiter.thread() for _ in range(threads)]
    owner.start(cycle(holder, owner, options, hold_s=99.0))
    for thread in waiting:
        world.events.at(0.5, partial(thread.start, cycle(waiter, thread, options, hold_s=1.0)))
    world.run(dice.uniform(1.0, 12.0))
    holder.kill()
    assert hosts[0].left(NAME)
    ends_at = world.events.now + hosts[0].master.pttl(NAME) / 1000
    world.run(99.0, lambda: len(world.referee.entered) > 1)
    entered_at = world.events.now
    world.close()
    return entered_at - ends_at
