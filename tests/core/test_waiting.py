"""The waiting of acquire, with a scripted driver: no sockets, no sleep, an injected clock."""

from __future__ import annotations

import pytest

from rlock.model import Code, Vote
from rlock.procedures.acquire import AT_ONCE, FOR_EVER
from rlock.procedures.contender import Grant
from rlock.procedures.port import Wake
from rlock.rules import scripts
from rlock.rules.keys import EVICTED, HandOff
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.tickets import FleetTime, Place

from .world import ABSENT, DOWN, YES, Call, Send, Subscribe, World, held_by, named, said

DEAD, EARLIER = held_by("dead:1", ttl_ms=60_000), Vote(Code.QUEUED, "first:1|s", ticket=9)


@pytest.mark.rule("4.2")
def test_the_order_is_try_subscribe_try_again_sleep() -> None:
    world = World(1, [held_by()], [held_by()], [YES], park=lambda step: Wake.FREE)
    world.acquire(FOR_EVER)
    assert world.kinds() == ["Call", "Subscribe", "Call", "Send", "Subscribe", "Wait", "Call"]
    first, second, third = world.sent(scripts.ACQUIRE)
    assert named(first, "waiter") == "", "who cannot hear of a hand-off yet takes no place"
    assert named(second, "waiter") == named(third, "waiter") != ""


def test_the_time_out_is_exact_and_no_round_starts_after_it() -> None:
    world = World(3, [held_by()] * 3, [held_by()] * 3, [Vote(Code.YES, "them:1", 1, 9_000)] * 3)
    assert world.acquire(world.now + 4.0) is None
    assert world.now == pytest.approx(1004.0, abs=0.001)
    assert world.kinds()[-3:] == ["Wait", "Unsubscribe", "Send"], "and it leaves the queue"
    assert (world.steps[-1].targets, world.steps[-1].resend_for) == (None, 10.0)


def test_a_waiter_for_which_another_one_polls_sends_nothing() -> None:
    """Not even when the lease has run out that refused it: its holder may have renewed it since."""
    world = World(3, [held_by(ttl_ms=3_000)] * 3, subscribed=True, polls=False)
    assert world.acquire(world.now + 8.0) is None
    assert len(world.sent(scripts.ACQUIRE)) == 1
    assert not [step for step in world.sent(scripts.WAIT) if isinstance(step, Call)]


@pytest.mark.rule("4.1")
def test_a_key_without_expiry_is_no_reason_to_sleep_for_ever() -> None:
    for_ever = held_by(ttl_ms=-1)
    world = World(1, [for_ever], [for_ever], [ABSENT], [YES])
    assert isinstance(world.acquire(FOR_EVER), Grant)
    assert world.now < 1002.0


def test_one_who_was_handed_the_lock_takes_it_with_a_round_of_its_own() -> None:
    world = World(3, [held_by()] * 3, [YES] * 3, subscribed=True, park=lambda step: Wake.HANDED)
    grant = world.won(FOR_EVER)
    refused, taken = world.sent(scripts.ACQUIRE)
    (place,) = {step.contender.place for step in world.steps if isinstance(step, Subscribe)}
    assert place is not None
    assert named(refused, "waiter") == named(taken, "waiter") == grant.waiter == place.waiter
    assert grant.owner not in (place.owner, named(refused, "owner")), "an owner of its own each time"
    assert place.owner in world.contender.owners, "it may still stand in a queue, and goes with the release"


def test_a_round_that_was_lost_after_a_hand_off_keeps_the_place() -> None:
    world = World(3, [held_by(ticket=42)] * 3, [held_by("c:1"), held_by("b:1"), YES], [YES] * 3)
    world.subscribed = True
    world.park = lambda step: Wake.HANDED
    grant = world.won(FOR_EVER)
    first, second, _ = world.sent(scripts.ACQUIRE)
    kept = [step for step in world.sent(scripts.WAIT) if isinstance(step, Send)]
    assert said(kept[-1])[1:3] == (grant.waiter, "42"), "with its ticket"
    assert kept[-1].targets == [2], "where it had been taken out of the queue to be handed the lock"
    (given_back,) = world.sent(scripts.RELEASE)
    assert (named(given_back, "owner"), given_back.targets) == (named(second, "owner"), [2])
    assert named(given_back, "owner") != named(first, "owner")


def test_one_whose_place_was_evicted_waits_on_with_another_place() -> None:
    """Otherwise each release would pass it over until the ban ends."""
    world = World(3, *[[held_by(ticket=42)] * 3] * 3, [YES] * 3, subscribed=True)
    evicted = [HandOff(note=EVICTED)] * 2

    def park(_: object) -> Wake:
        world.contender.findings.handed = {i: evicted.pop() for i in range(len(evicted))}
        return Wake.HANDED

    world.park = park
    grant = world.won(FOR_EVER)
    first, last = (world.sent(scripts.ACQUIRE)[i] for i in (0, -1))
    assert named(first, "waiter") != named(last, "waiter") == grant.waiter


def test_a_fair_one_that_finds_a_free_lock_before_its_turn_has_it_handed_on() -> None:
    queued = Vote(Code.QUEUED, "first:1|s", 0, 0, ticket=9)
    fair = LockOptions("x", ClientOptions().lease(None), fair=True)
    world = World(3, [queued] * 3, [ABSENT] * 3, [YES] * 3)
    grant = world.won(AT_ONCE, fair)
    assert isinstance(grant, Grant), "those before it were dead"
    first, nudge, second = world.steps
    assert named(nudge, "owner") == "", "whatever is held stays"
    assert named(first, "order") == named(second, "order") == "fair"
    world = World(3, [queued] * 3, [ABSENT] * 3, [held_by("first:1")] * 3)
    assert world.acquire(AT_ONCE, fair) is None


def place(ticket: int = 0) -> Place:
    return Place("x", "a:1", "s", ticket)


def test_a_ticket_is_what_a_quorum_gave_at_the_most() -> None:
    asked_for = place(500)
    assert asked_for.draw({0: held_by(ticket=500), 2: held_by(ticket=500)}) is False
    assert (asked_for.ticket, asked_for.drawn) == (500, True)
    behind = place(500)
    assert behind.draw({0: held_by(ticket=500), 2: held_by(ticket=701)}), "the others must be told"
    assert behind.ticket == 701
    first = place(0)
    assert first.draw({0: held_by(ticket=900), 1: held_by(ticket=901)})
    assert first.ticket == 901
    assert first.draw({0: held_by(ticket=999)}) is False
    assert first.ticket == 901, "drawn once"
    assert place(3).draw({0: DOWN, 1: YES}) is False


def test_the_fleet_s_time_is_the_masters_and_not_the_client_s() -> None:
    time = FleetTime()
    assert time.us(50.0) == 0, "nothing known: whatever the masters say"
    # one master's clock is an hour ahead, one answers slowly
    votes = {
        0: Vote(Code.FOREIGN, time_us=7_000_000_000),
        1: Vote(Code.FOREIGN, time_us=7_000_000_400),
        2: Vote(Code.FOREIGN, time_us=10_600_000_000),
        3: DOWN,
    }
    time.correct(votes, 100.0, 100.002)
    assert time.us(100.001) == 7_000_000_400
    assert time.us(101.001) == 7_001_000_400
