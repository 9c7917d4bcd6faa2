"""Masters return their time and the length of the queue only when they will be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlock import events
from rlock.model import Code, Queue, Vote
from rlock.procedures.acquire import FOR_EVER
from rlock.procedures.port import Wake
from rlock.rules import scripts
from rlock.rules.keys import REDISSON
from rlock.rules.tickets import FleetTime
from rlock.rules.timing import TIME_AGE_S

from .world import YES, World, held_by, named


def test_the_masters_tell_their_time_again_when_what_is_known_of_it_is_old() -> None:
    time = FleetTime()
    assert time.stale(0.0)
    time.observe({0: Vote(Code.FOREIGN, time_us=7_000_000)}, 9.0, 10.0)
    assert not time.stale(10.0 + TIME_AGE_S / 2)
    assert time.stale(10.1 + TIME_AGE_S)
    time.observe({0: Vote(Code.FOREIGN)}, 11.0, 12.0)
    assert time.stale(12.0), "nobody told it"


def told(world: World) -> list[str]:
    """What each attempt with a place wants to be told, beside who has the lock."""
    asks = world.sent(scripts.ACQUIRE)
    return [named(ask, "told") for ask in asks if named(ask, "waiter")]


def test_what_nobody_needs_to_know_the_masters_need_not_tell() -> None:
    timed = held_by()._replace(time_us=1_790_000_000_000_000)
    world = World(1, [timed], [timed], [held_by()], [held_by()], [YES])
    world.park = lambda step: Wake.FREE
    world.acquire(FOR_EVER)
    assert told(world) == ["brief"] * 4, "the first attempt had no place, and its answer told the time"
    world = World(1, [held_by()], [timed], [held_by()], [held_by()], [YES])
    world.park = lambda step: Wake.FREE
    world.acquire(FOR_EVER)
    assert told(world) == ["all", "brief", "brief", "brief"], "until they have told it"


def test_who_shares_a_lock_or_is_observed_wants_to_know_all() -> None:
    timed = held_by()._replace(time_us=1_790_000_000_000_000)
    rounds = [timed], [timed], [held_by()._replace(queue=Queue(2))], [held_by()], [YES]
    world = World(1, *rounds)
    world.context = replace(world.context, wire=REDISSON)
    world.acquire(FOR_EVER)
    assert set(told(world)) == {"all"}
    world = World(1, *rounds)
    world.park = lambda step: Wake.FREE
    heard: list[Any] = []
    end = events.observe(heard.append)
    try:
        world.acquire(FOR_EVER)
    finally:
        end()
    assert told(world) == ["all", "all", "brief", "brief"], "until it was told how long the queue is"
    assert [event.length for event in heard if isinstance(event, events.Queued)] == [2]
