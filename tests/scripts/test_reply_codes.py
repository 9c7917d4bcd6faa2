"""acquire, release, status and wait, on every server found: each reply code, and each second delivery.

Who stands in the queue, and what becomes of the lock then: test_queue.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ..scripted import (
    ANNA,
    BEN,
    CARA,
    CHANNEL,
    LEASE_MS,
    LOCK,
    MINE,
    OLDER,
    QUEUE,
    STRANGERS,
    THEIRS,
    TICKET,
    TOKEN,
    Box,
    Ear,
)

Call = Callable[[Box], Any]


@pytest.mark.parametrize("order", ["barging", "fair"])
def test_acquire_of_a_free_lock_is_granted_with_an_expiry(box: Box, order: str) -> None:
    assert box.acquire(order=order)[:5] == [1, MINE, 1, LEASE_MS, 0]
    assert box.content() == ("hash", {MINE: "1"})
    assert LEASE_MS - 1000 < box.pttl() <= LEASE_MS


@pytest.mark.rule("3.3")
@pytest.mark.parametrize("order", ["barging", "fair"])
def test_acquire_delivered_twice_leaves_the_count_and_counts_the_lease_from_its_own_arrival(
    box: Box, order: str
) -> None:
    box.hold(count=2)
    time.sleep(0.02)
    reply = box.acquire(order=order, token=TOKEN + 9)[:7]
    assert reply == [1, MINE, 2, LEASE_MS, 0, 0, TOKEN], "the stored count, which a renewal may have set"
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 15 <= box.pttl() <= LEASE_MS, "not added up"


def test_acquire_is_refused_with_the_holder_and_what_is_left_of_its_lease(box: Box) -> None:
    box.hold(THEIRS, count=4)
    with box.nothing_written():
        code, holder, count, ttl_ms, ticket, time_us, *_ = box.acquire()
    assert (code, holder, count) == (-1, THEIRS, 4)
    assert 0 < ttl_ms <= LEASE_MS
    assert (ticket, time_us) == (0, 0), "it asked for no place"


def test_acquire_tells_a_holder_without_an_expiry(box: Box) -> None:
    box.client.hset(LOCK, THEIRS, 1)
    assert box.acquire()[:6] == [-1, THEIRS, 1, -1, 0, 0]
    assert box.content() == ("hash", {THEIRS: "1"})


@pytest.mark.rule("3.4")
def test_a_late_acquire_of_an_earlier_owner_does_not_touch_the_newer_one(box: Box) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    with box.nothing_written():
        assert box.acquire(OLDER)[:2] == [-1, MINE]


@pytest.mark.parametrize("owner", ["", "ü:1", "a b:1", "x" * 2000, "{}:%d\n"])
def test_an_owner_of_any_characters_comes_back_as_it_was(box: Box, owner: str) -> None:
    assert box.acquire(owner)[:2] == [1, owner]
    assert box.acquire(THEIRS)[:2] == [-1, owner]
    assert box.release(owner)[:2] == [1, owner]
    assert box.content() is None


def test_fair_refuses_a_free_lock_to_one_who_is_not_the_first(box: Box) -> None:
    box.enqueue(BEN, CARA)
    code, holder, count, ttl_ms, ticket, time_us, *_ = box.acquire(waiter=ANNA, order="fair", ticket=TICKET)
    assert (code, holder, count, ttl_ms) == (-3, BEN, 0, 0)
    assert ticket == box.line()[CARA] + 1
    assert abs(time_us - box.time_us()) < 5_000_000
    assert box.content() is None
    assert box.waiters() == [BEN, CARA, ANNA]
    assert box.acquire(waiter=CARA, order="fair")[:2] == [-3, BEN], "nor to one who stands further back"


def test_fair_refuses_a_free_lock_to_one_who_does_not_wait(box: Box) -> None:
    box.enqueue(BEN)
    with box.nothing_written():
        assert box.acquire(order="fair")[:6] == [-3, BEN, 0, 0, 0, 0]


def test_barging_takes_a_free_lock_whoever_waits(box: Box) -> None:
    box.enqueue(BEN, CARA)
    assert box.acquire()[:2] == [1, MINE]
    assert box.waiters() == [BEN, CARA]


def test_release_frees_and_tells_each_subscriber_once(box: Box, ear: Ear) -> None:
    box.hold(count=3)
    assert box.release(channel=CHANNEL, message="hello") == [1, MINE, 1, 0, 0]
    assert box.content() is None
    assert ear.heard() == ["hello"]


def test_release_without_a_channel_frees_in_silence(box: Box, ear: Ear) -> None:
    anonymous = Ear(box.client, channel="")
    box.acquire()
    assert box.release(channel="") == [1, MINE, 0, 0, 0]
    assert box.content() is None
    assert ear.heard() == []
    assert anonymous.heard() == []
    anonymous.close()


@pytest.mark.rule("3.3")
def test_release_delivered_twice_writes_and_publishes_once(box: Box, ear: Ear) -> None:
    box.acquire()
    box.release(channel=CHANNEL)
    with box.nothing_written():
        assert box.release(channel=CHANNEL) == [0, "", 0, -2, 0]
    assert ear.heard() == ["0"]


@pytest.mark.rule("3.4")
def test_a_late_release_of_an_earlier_owner_does_not_free_the_newer_one(box: Box, ear: Ear) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    before = box.pttl()
    with box.nothing_written():
        assert box.release(OLDER, channel=CHANNEL)[:2] == [-1, MINE]
    assert 0 < box.pttl() <= before
    assert ear.heard() == []


def test_release_by_nobody_tells_all_that_the_lock_is_free(box: Box, ear: Ear) -> None:
    with box.nothing_written():
        assert box.release("", CHANNEL, "free") == [0, "", 1, 0, 0]
        assert box.release("", CHANNEL, "") == [0, "", 0, 0, 0]
        assert box.release("") == [0, "", 0, 0, 0]
    assert ear.heard() == ["free"]


def test_status_tells_the_holder_and_writes_nothing(box: Box) -> None:
    box.hold(THEIRS, count=2)
    with box.nothing_written():
        code, holder, count, ttl_ms, length, waiters = box.status()
        assert (code, holder, count, length, waiters) == (1, THEIRS, 2, 0, [])
        assert 0 < ttl_ms <= LEASE_MS
        assert box.status()[:3] == [1, THEIRS, 2]


def test_wait_tells_the_holder_and_touches_nothing_of_its_lease(box: Box) -> None:
    box.hold(THEIRS, count=2, lease_ms=5_000)
    for _ in range(2):
        before = time.time_ns() // 1000
        code, holder, count, ttl_ms, time_us = box.wait()
        assert (code, holder, count) == (1, THEIRS, 2)
        assert before <= time_us <= time.time_ns() // 1000
        assert 0 < ttl_ms <= 5_000
    assert box.content() == ("hash", {THEIRS: "2"})
    assert 0 < box.pttl() <= 5_000


NOT_A_LOCK = [-2, "", 0, -1]
#: Each script about one lock, as one who waits sends it, and its answer to a key that is not a lock.
SINGLE: dict[str, tuple[Call, list[Any]]] = {
    "acquire": (lambda box: box.acquire(waiter=ANNA)[:7], [*NOT_A_LOCK, 0, 0, 0]),
    "acquire, fair": (lambda box: box.acquire(waiter=ANNA, order="fair")[:7], [*NOT_A_LOCK, 0, 0, 0]),
    "release": (lambda box: box.release(channel=CHANNEL), [*NOT_A_LOCK, 0]),
    "release, by nobody": (lambda box: box.release("", CHANNEL, next_waiter=ANNA), [*NOT_A_LOCK, 0]),
    "status": (lambda box: box.status(), [*NOT_A_LOCK, 0, []]),
    "wait": (lambda box: box.wait(), [*NOT_A_LOCK, 0]),
}


@pytest.mark.parametrize("script", SINGLE)
@pytest.mark.parametrize("kind", STRANGERS)
def test_a_key_that_is_not_a_lock_is_named_so_and_left_alone(
    box: Box, ear: Ear, script: str, kind: str
) -> None:
    box.put(kind)
    call, answer = SINGLE[script]
    with box.nothing_written():
        assert call(box) == answer
        assert call(box) == answer
    assert box.content(QUEUE) is None, "nobody waits for what can never be had"
    assert ear.heard() == []


def test_renew_assigns_the_hold_count(box: Box) -> None:
    box.acquire()
    assert box.renew(count=3) == [1]
    assert box.content() == ("hash", {MINE: "3"})
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})


@pytest.mark.rule("3.3")
def test_renew_delivered_twice_leaves_the_same_count_and_the_same_lease(box: Box) -> None:
    box.acquire()
    box.renew(count=2)
    time.sleep(0.2)
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 150 <= box.pttl() <= LEASE_MS, "counted from its own arrival, and not added up"


def test_renew_of_an_absent_lock_does_not_put_it_back(box: Box) -> None:
    with box.nothing_written():
        assert box.renew() == [0]
    assert box.content() is None


@pytest.mark.parametrize("holder", [OLDER, THEIRS])
def test_a_late_renewal_does_not_prolong_the_lease_of_the_next_owner(box: Box, holder: str) -> None:
    box.acquire(holder, lease_ms=5_000)
    with box.nothing_written():
        assert box.renew(lease_ms=LEASE_MS, count=7) == [-1]
    assert 0 < box.pttl() <= 5_000


def test_three_hundred_locks_are_answered_in_the_order_of_their_keys(box: Box) -> None:
    """The limit of Lua's stack and of unpack() lies near 8000 values; one code for each key is no problem."""
    keys, words, expected = [], [], []
    pipe = box.client.pipeline(transaction=False)
    for i in range(300):
        key, owner = f"{LOCK}:{i}", f"me:{i}"
        keys.append(key)
        words += [owner, str(i % 3 + 1)]
        if i % 5 == 0:
            expected.append(0)
        elif i % 5 == 1:
            pipe.hset(key, THEIRS, 1)
            expected.append(-1)
        elif i % 5 == 2:
            pipe.set(key, "1")
            expected.append(-1)
        else:
            pipe.hset(key, owner, 1)
            pipe.pexpire(key, 5_000)
            expected.append(1)
    pipe.execute()
    assert box.call("renew", keys, LEASE_MS, *words) == [words[0], expected, ""]
    for i, key in enumerate(keys):
        if expected[i] == 1:
            assert box.content(key) == ("hash", {f"me:{i}": str(i % 3 + 1)})
            assert 5_000 < box.pttl(key) <= LEASE_MS
        else:
            assert box.pttl(key) == (-2 if expected[i] == 0 else -1)
    assert box.client.dbsize() == 240 + 1, "and the note"
