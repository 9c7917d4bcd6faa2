"""The grant by messages: when it counts, for how long, and what its confirmation proves.

`evidence/spec/HandOff.tla` has each of these conditions, and is violated without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from rlock.errors import LeaseLostError
from rlock.model import Code, LeaseState, Vote
from rlock.procedures.attempt import take_place
from rlock.procedures.hand_off import claim
from rlock.procedures.renew import RenewalOutcome
from rlock.recipes.leader import _Term
from rlock.rules import scripts
from rlock.rules.keys import REDISSON, HandOff
from rlock.rules.lease import Confirmation, Lease, LeaseEvent
from rlock.rules.quorum import Ballot
from rlock.rules.restart_guard import Guard
from rlock.rules.tickets import FleetTime
from rlock.rules.timing import CLAIM_S, valid_until
from rlock.testing import memory_client

from .world import OPTIONS, YES, World

TOKEN = 1_790_000_000_000_000
NOW_US = 7_000_000_000_000_000  # the masters' time at `World.now`
NOTE = "m0 1 9000"


def message(world: World, age_s: float = 0.0, **changes: object) -> HandOff:
    """A grant of so many seconds ago, read now."""
    made = HandOff(TOKEN, NOW_US + round((world.now - 1000.0 - age_s) * 1e6), NOTE, world.now)
    return made._replace(**changes)  # type: ignore[arg-type]


def handed(world: World, *messages: HandOff) -> None:
    """The contender waits, and messages of the first masters have woken it."""
    world.context = replace(world.context, guard=Guard(3, 10.0, 0))
    for master in range(world.size):
        world.context.time.saw(master, NOW_US, 1000.0)
    place = take_place(world.context, world.contender)
    place.ticket, place.drawn, place.attempts = 5, True, 1
    world.contender.findings.handed = dict(enumerate(messages))
    world.contender.findings.ballot = Ballot(world.size)


def test_messages_of_a_quorum_are_the_grant_and_the_confirmation_is_sent_without_waiting() -> None:
    world = World(3, [YES] * 3)
    handed(world, message(world), message(world), HandOff(read_at=world.now))
    grant = claim(world, world.contender)
    assert grant is not None
    place = world.contender.place
    assert place is not None
    assert (grant.owner, grant.waiter, grant.token, grant.votes) == (place.owner, place.waiter, TOKEN, 2)
    (confirmation,) = world.sent(scripts.CONFIRM)
    assert confirmation.command.words[-3:] == ("10000", str(TOKEN), place.owner)
    assert confirmation.command.packed.startswith(b"*8\r\n$4\r\nEVAL\r\n"), "SCRIPT FLUSH does not matter"
    assert confirmation.targets is None, "also to masters whose messages have not come yet"


def put(world: World, *messages: HandOff) -> None:
    """Instead of those that there are, from the last one on."""
    world.contender.findings.handed.update(zip((1, 0, 2), messages, strict=False))


def other_context(world: World, **fields: Any) -> None:
    world.context = replace(world.context, **fields)


#: Why messages of two masters are no grant.
NO_GRANT: dict[str, Callable[[World], object]] = {
    "one is missing": lambda world: world.contender.findings.handed.popitem(),
    "one is no grant": lambda world: put(world, HandOff(read_at=world.now)),
    "one is from a clock that jumped": lambda world: put(world, message(world, -0.1)),
    "the claim time is over, but for the drift": lambda world: put(world, message(world, 0.98)),
    "one is too old, and the other two have other tokens": lambda world: put(
        world, message(world, 1.5), message(world), message(world, token=TOKEN + 1)
    ),
    "tokens differ": lambda world: put(world, message(world, token=TOKEN + 3)),
    "too little is left for the confirmation to come back": lambda world: put(world, message(world, 0.6)),
    # It may have taken the lease behind them and given it back.
    "another attempt": lambda world: setattr(world.contender.place, "attempts", 2),
    # On a new connection it may have taken the lease behind the message, and its undo gave it back.
    "a second delivery": lambda world: world.contender.findings.ballot.recall(1),
    "not waiting": lambda world: setattr(world.contender, "place", None),
    "unknown clock": lambda world: world.context.time.saw(1, 0, 1000.0),
    "fixed lease": lambda world: setattr(world.contender, "options", replace(OPTIONS, renew=False)),
    # It must be noted on the masters first.
    "longer than all before": lambda world: setattr(world.context.guard, "noted", OPTIONS.lease.ttl - 0.1),
    "shared with Redisson": lambda world: other_context(world, wire=REDISSON),
    "group": lambda world: other_context(world, groups={1: 1}),
    "guard": lambda world: other_context(world, guard=Guard(3, 10.0)),
}


@pytest.mark.parametrize("why", NO_GRANT)
def test_other_messages_are_no_grant(why: str) -> None:
    world = World(3, [YES] * 3)
    world.now += 2.0
    handed(world, message(world), message(world))
    NO_GRANT[why](world)
    assert claim(world, world.contender) is None
    assert world.steps == []


@pytest.mark.rule("3.8", "3.10")
def test_a_message_with_another_token_counts_for_nothing() -> None:
    """Not for the validity either: otherwise the token would rest on a message that is over."""
    world = World(5, [YES] * 5)
    world.now += 0.5
    handed(world, *(message(world, age_s) for age_s in (0.3, 0.3, 0.2)), message(world, token=TOKEN + 3))
    grant = claim(world, world.contender)
    assert grant is not None
    assert (grant.token, grant.votes) == (TOKEN, 3)
    assert world.now - 0.31 < grant.sent_at <= world.now - 0.3
    assert grant.confirmation is not None
    assert set(grant.confirmation.given) == {0, 1, 2}


def test_a_masters_time_is_never_taken_for_a_later_instant_than_it_was() -> None:
    """Its clock may run at another rate since the last exchange, and that took some time."""
    time = FleetTime()
    assert time.not_before(0, NOW_US) is None
    time.saw(0, NOW_US, 100.0)
    for passed in (-20.0, -1.0, 0.0, 1.0, 9.0):
        for rate in (0.9902, 1.0, 1.0098):
            instant = 100.0 + passed / rate
            bound = time.not_before(0, NOW_US + round(passed * 1e6))
            assert bound is not None
            assert instant - 0.02 * abs(passed) - 0.01 < bound <= instant + 1e-6
    assert time.not_before(0, NOW_US + 11_000_000) is None, "a clock that was set makes the bound wrong"
    time.saw(0, 0, 200.0)
    assert time.not_before(0, NOW_US) is None, "another server may have another clock"


@pytest.mark.parametrize(
    ("payload", "place", "token"),
    [
        (b"a:1 5 7 m0 1 2", b"a:1", 5),
        (b"a:1 5 7 ", b"a:1", 5),
        (b"a:1", b"a:1", 0),
        (b"a:1 5 7", b"a:1", 0),
        (b"a:1 -5 7 m0", b"a:1", 0),
        (b"a:1 5 1e9 m0", b"a:1", 0),
        (b"a:1 99999999999999999999 7 m0", b"a:1", 0),
    ],
)
def test_a_message_is_read_or_is_no_grant(payload: bytes, place: bytes, token: int) -> None:
    found, grant = HandOff.parse(payload, 3.0)
    assert (found, grant.token, grant.read_at) == (place, token, 3.0)


SAME = Vote(Code.YES, note=NOTE)


def confirmed(world: World, *votes: Vote, guarded: bool = True) -> Confirmation:
    ballot = Ballot(3, sent_at=world.now)
    for master, vote in enumerate(votes):
        ballot.cast(master, vote)
    handed(world, *[message(world)] * 2)
    return Confirmation(ballot, world.contender.findings.handed, guarded=guarded)


@pytest.mark.rule("3.10")
@pytest.mark.parametrize(
    ("votes", "proven"),
    [
        ([SAME], False),
        ([SAME, SAME], True),
        ([SAME, SAME._replace(note="m0 1 10000")], True),  # another lease was longer
        ([SAME, SAME._replace(note="m0 2 9000")], False),  # the master has lost its memory in between
        ([SAME, SAME._replace(note="")], False),
        ([SAME, Vote(Code.FOREIGN, note=NOTE)], False),  # someone else's, or another grant
        ([SAME, Vote(Code.FOREIGN, note=NOTE), SAME], False),  # the third one has sent no message
    ],
)
def test_a_quorum_on_which_the_grant_still_stands_proves_that_the_lease_never_lapsed(
    votes: Sequence[Vote], proven: bool
) -> None:
    assert confirmed(World(3), *votes).proves() is proven


def test_without_the_guard_no_note_is_compared() -> None:
    assert confirmed(World(3), SAME, SAME._replace(note=""), guarded=False).proves()


def test_a_confirmation_that_is_read_late_shows_that_the_lease_has_stood() -> None:
    world = World(3)
    confirmation = confirmed(world)
    lease = Lease(10.0, 50.0, confirmation)
    for master in (0, 1):
        confirmation.ballot.cast(master, SAME)
    confirmation.ballot.sent_at = 50.1
    assert lease.update(52.0) is LeaseState.HELD
    assert lease.valid_until == valid_until(50.1, 10.0)
    assert lease.confirmation is None


def test_a_loss_that_was_told_is_not_taken_back_by_a_confirmation() -> None:
    told: list[LeaseState] = []

    class Told(Confirmation):
        def proves(self) -> bool:
            if not told:
                told.append(LeaseState.HELD)
                told[0] = lease.state_at(20.0)  # another thread asks at this moment
            return len(told) == 1 and told[0] is LeaseState.LOST

    lease = Lease(10.0, 0.0, Told(Ballot(1, sent_at=100.0), {}, guarded=False))
    lease.state_at(20.0)
    assert told == [LeaseState.LOST]
    assert lease.state_at(20.0) is LeaseState.LOST


def test_the_confirmation_is_read_without_the_mutex_of_the_holds() -> None:
    """Otherwise all threads of the client would wait for a read from a socket."""
    with memory_client(3, ttl=5.0) as client:
        lock, engine = client.lock("x"), client._engine()
        lock.acquire()
        (hold,) = engine.holds
        with_mutex: list[bool] = []
        read: Any = lambda: with_mutex.append(engine.holds.mutex._is_owned())  # noqa: E731
        engine.masters.read_arrived = read  # type: ignore[method-assign]
        uses: list[Callable[[], object]] = [
            lock.remaining,
            lock.check,
            lock.acquire,
            lock.lost.is_set,
            lambda: _Term(engine, hold).remaining_s(),
            lambda: engine.watchdog._sort([hold], engine.clock()),
            lambda: engine.watchdog._apply([RenewalOutcome(hold, LeaseEvent.FAILED, engine.clock())]),
            client.close,
        ]
        for use in uses:
            hold.lease = Lease(5.0, engine.clock() - 2 * CLAIM_S, confirmed(World(3)))
            with_mutex.clear()
            with suppress(LeaseLostError):
                use()
            assert with_mutex, use
            assert not any(with_mutex), use
