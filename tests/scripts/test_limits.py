"""The scripts at their limits: no memory, not all permissions, a queue of 10,000, somebody else's key."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rlock.rules.keys import READERS

from .. import scripted
from ..scripted import ANNA, BEN, CARA, CHANNEL, LEASE_MS, LOCK, MINE, READER, THEIRS, TICKET, Box, owner_of


def test_out_of_memory_a_lease_is_prolonged_even_if_its_count_cannot_be_told(box: Box) -> None:
    box.acquire(lease_ms=5_000)
    box.fill()
    assert box.renew(count=2) == [1]
    assert 5_000 < box.pttl() <= LEASE_MS
    assert box.content() == ("hash", {MINE: "1"})


@pytest.mark.parametrize("ban_ms", [0, 20_000])
def test_out_of_memory_a_release_still_frees_and_wakes_and_an_eviction_bans(box: Box, ban_ms: int) -> None:
    box.acquire()
    box.fill()
    assert box.release(channel=CHANNEL, ban_ms=ban_ms) == [1, MINE, 1, 0, 0]
    assert box.content(scripted.EVICTED) == (("string", MINE) if ban_ms else None)
    assert box.content() is None
    assert box.heard() == {"": ["0"]}


def test_out_of_memory_a_release_still_hands_on(box: Box) -> None:
    """A server lets a script write on that has begun to write, and a DEL is always allowed."""
    box.listen(BEN)
    box.acquire()
    box.enqueue(ANNA, BEN)
    box.fill()
    assert box.hand_on() == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.heard() == {BEN: [owner_of(BEN)]}
    assert box.hand_on(owner_of(BEN), reader=READER) == [1, owner_of(BEN), 1, LEASE_MS, scripted.TOKEN + 1]
    assert box.content() == ("hash", {READERS: "0"})


def test_out_of_memory_a_waiter_is_told_who_holds_the_lock_and_keeps_the_place_that_it_has(box: Box) -> None:
    box.hold(THEIRS, count=2)
    box.enqueue(ANNA, expiry=False)
    box.fill()
    assert box.acquire(waiter=ANNA, ticket=TICKET + 5)[4] == TICKET
    assert box.pttl(scripted.QUEUE) > 0
    assert box.status()[4:] == [1, [ANNA, str(TICKET)]]
    assert box.release(owner_of(ANNA), CHANNEL, waiter=ANNA)[0] == -1
    assert box.content(scripted.QUEUE) is None
    code, holder, count, ttl_ms, ticket, time_us, *_ = box.acquire(waiter=ANNA, ticket=TICKET)
    assert (code, holder, count, ticket) == (-1, THEIRS, 2, 0), "and it gets none"
    assert 0 < ttl_ms <= LEASE_MS
    assert time_us > 0
    assert box.wait()[:3] == [1, THEIRS, 2]
    assert box.content(scripted.QUEUE) is None


@pytest.mark.parametrize("rules", ["-hset", "-pexpire", "-pexpire -del"])
@pytest.mark.parametrize("reader", ["", READER])
def test_without_leave_to_hand_on_a_release_frees_and_tells_all(box: Box, rules: str, reader: str) -> None:
    box.listen(ANNA)
    user = box.restricted(*rules.split())
    box.acquire()
    box.enqueue(ANNA)
    assert user.hand_on(reader=reader) == [1, MINE, 1, 0, 0]
    assert box.content() is None
    box.enqueue(ANNA)
    assert user.release("", CHANNEL) == [0, "", 1, 0, 0]
    assert box.content() is None
    assert box.heard() == {"": ["0", "0"]}


@pytest.mark.parametrize("rule", ["-@sortedset", "-zrem", "-zadd", "-zscore", "-time"])
@pytest.mark.parametrize("held", [True, False])
def test_without_leave_for_the_queue_a_failed_acquire_holds_nothing(box: Box, rule: str, held: bool) -> None:
    """Granted or refused or an error; but an error that leaves a lease is a vote of which nobody knows."""
    if held:
        box.acquire(THEIRS)
    try:
        reply = box.restricted(rule).acquire(waiter=ANNA, ticket=TICKET)
    except redis.ResponseError:
        assert box.content() == (("hash", {THEIRS: "1"}) if held else None)
    else:
        assert reply[0] == (-1 if held else 1)
        assert box.line() == ({ANNA: TICKET} if reply[4] else {})


@pytest.mark.parametrize("script", ["acquire", "wait"])
def test_without_leave_to_expire_no_queue_is_left_that_stays_for_ever(box: Box, script: str) -> None:
    box.acquire(THEIRS)
    with contextlib.suppress(redis.ResponseError):
        getattr(box.restricted("-pexpire"), script)(waiter=ANNA)
    assert box.pttl(scripted.QUEUE) != -1


@pytest.mark.parametrize("rules", ["-hset", "-pexpire", "-pexpire -del", "-pexpire -hdel"])
def test_without_leave_to_write_or_to_expire_no_lock_is_left(box: Box, rules: str) -> None:
    """A key without an expiry would lock for ever."""
    user = box.restricted(*rules.split())
    assert user.heal() == [0]
    assert (box.content(), box.fenced()) == (None, None)
    with pytest.raises(redis.ResponseError, match=r"can't run this command|ACL failure"):
        user.acquire()
    assert box.content() is None


@pytest.mark.parametrize(
    "script", ["acquire", "release", "status", "wait", "renew", "heal", "confirm", "transfer"]
)
def test_a_refused_read_is_an_error_and_never_an_answer(box: Box, script: str) -> None:
    """An error that passes for *absent* or for *not a lock* would be counted as a vote."""
    box.acquire(THEIRS)
    user = box.restricted("-hlen", "-hget", "-hdel", "-hgetall")
    with pytest.raises(redis.ResponseError):
        getattr(user, script)()
    assert box.content() == ("hash", {THEIRS: "1"})


@pytest.mark.parametrize("script", ["acquire", "renew", "heal", "confirm"])
@pytest.mark.parametrize("held", [True, False])
def test_a_lease_of_more_than_a_day_is_refused_before_any_write(box: Box, script: str, held: bool) -> None:
    """A client of another version may ask for it; a longer one would stand in the note for ever."""
    if held:
        box.acquire()
    for lease_ms in (86_400_001, 2 * 10**16):
        with box.nothing_written(), pytest.raises(redis.ResponseError, match="lease"):
            getattr(box, script)(MINE, lease_ms)
    getattr(box, script)(MINE, 86_400_000)


def test_a_reader_with_a_lease_of_more_than_a_day_does_not_read_on(box: Box) -> None:
    box.acquire()
    reply = box.hand_on(reader=READER, reader_ms=86_400_001)
    assert (reply, box.content(), box.heard()) == ([1, MINE, 1, 0, 0], None, {"": ["0"]})


#: Places of dead waiters that one call takes out of the queue, and what it answers if there may be more.
AT_ONCE, MORE = 200, -2


@pytest.mark.parametrize("claim_ms", [scripted.CLAIM_MS, 0])
def test_a_release_passes_over_so_many_dead_waiters_and_tells_all_the_rest(box: Box, claim_ms: int) -> None:
    """Otherwise 200,000 of them would stop the server for a second."""
    box.enqueue(*(f"dead:{i}|gone" for i in range(10_000)))
    box.acquire()
    cost = box.cost(lambda box: box.hand_on(message="free", claim_ms=claim_ms))
    assert cost.total() < 7 * AT_ONCE
    assert (box.content(), len(box.waiters())) == (None, 10_000 - AT_ONCE)
    assert box.heard() == {"": ["free"]}, "whoever wakes may have it"
    box.acquire()
    assert box.hand_on(message="", claim_ms=claim_ms) == [1, MINE, MORE, 0, 0]
    assert box.heard() == {"": [MINE]}, "an undo, too: else nobody would know that the lock is free"


def test_a_full_queue_takes_no_more_waiters_and_keeps_those_that_it_has(box: Box) -> None:
    box.hold(THEIRS)
    box.enqueue(ANNA, *(f"dead:{i}|gone" for i in range(19_998)))
    assert box.acquire(waiter=BEN, rank="last", ticket=0)[4] > TICKET
    code, holder, _, ttl_ms, ticket, *_ = box.acquire(waiter=CARA, rank="last", ticket=0)
    assert (code, holder, ticket) == (-1, THEIRS, 0), "it polls without a place"
    assert ttl_ms > 0
    assert box.acquire(waiter=ANNA, rank="last", ticket=0)[4] == TICKET
    assert len(box.waiters()) == 20_000


@pytest.mark.rule("3.10")
def test_an_evicted_waiter_is_passed_over_also_if_its_place_comes_late(box: Box) -> None:
    """Otherwise the eviction would come undone: by its own script, or by a later release."""
    anna = f"anna:{'0' * 32}|s1"
    box.listen(anna, BEN)
    box.acquire(owner_of(anna))
    box.enqueue(*(f"dead:{i}|gone" for i in range(120)), anna)
    assert box.hand_on(owner_of(anna), ban_ms=20_000)[0] == 1
    assert (box.content(), box.waiters()) == (None, [])
    box.acquire()
    box.enqueue(anna, BEN)
    box.hand_on()
    assert box.handed_to(BEN)
    assert box.heard().keys() == {"", anna, BEN}


@pytest.mark.parametrize("score", ["inf", "1e19", "8e15", "7999999999999999"])
def test_a_strangers_score_and_a_ticket_out_of_bounds_give_nobody_another_place(box: Box, score: str) -> None:
    box.hold(THEIRS)
    box.client.zadd(scripted.QUEUE, {"stranger": score})
    assert box.acquire(waiter=ANNA, ticket=TICKET)[4] == TICKET
    for ticket in (-5, 8 * 10**15):
        assert TICKET < box.acquire(waiter=BEN, ticket=ticket, rank="kept")[4] < 8 * 10**15


COSTS: dict[str, Callable[[Box], Any]] = {
    "acquire, refused": lambda box: box.acquire(THEIRS, waiter=CARA),
    "acquire, fair": lambda box: (box.client.delete(LOCK), box.acquire(waiter=CARA, order="fair")),
    "acquire, granted": lambda box: (box.client.delete(LOCK), box.acquire(waiter=ANNA, order="fair")),
    "release, to the first": lambda box: box.hand_on(),
    "release, of a place": lambda box: box.hand_on(THEIRS, waiter=BEN),
    "release, and read on": lambda box: box.hand_on(reader=READER),
    "release, an undo": lambda box: box.release(),
    "wait": lambda box: box.wait(BEN),
    "status": lambda box: box.status(last=1),
}


@pytest.mark.parametrize("script", COSTS)
def test_what_a_call_costs_does_not_grow_with_the_queue(box: Box, script: str) -> None:
    box.listen(ANNA)
    spent = []
    for length in (3, 10_000):
        box.client.flushall()
        box.acquire()
        box.enqueue(ANNA, BEN, *(f"more:{i}|here" for i in range(length - 2)))
        cost = box.cost(COSTS[script])
        cost.pop("del", None)  # by the test itself, too
        spent.append(cost)
    assert spent[0] == spent[1]
    assert 1 <= spent[0].total() <= 12


@pytest.mark.parametrize("owner", ["", "ü:1", "a b:1", "x" * 2000, "{}:%d\n"])
def test_an_owner_of_any_characters_comes_back_as_it_was(box: Box, owner: str) -> None:
    assert box.acquire(owner)[:2] == [1, owner]
    assert box.acquire(THEIRS)[:2] == [-1, owner]
    assert box.release(owner)[:2] == [1, owner]
    assert box.content() is None


@pytest.mark.rule("3.3")
def test_release_delivered_twice_writes_and_publishes_once(box: Box) -> None:
    box.acquire()
    box.release(channel=CHANNEL)
    with box.nothing_written():
        assert box.release(channel=CHANNEL) == [0, "", 0, -2, 0]
    assert box.heard() == {"": ["0"]}


def test_out_of_memory_nothing_is_put_back_and_nothing_written(box: Box) -> None:
    box.fill()
    with box.nothing_written():
        assert box.heal() == [0]
    assert (box.content(), box.fenced()) == (None, None)
