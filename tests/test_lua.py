"""acquire, release, status and evict, on every server found: each reply code, and each second delivery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from .scripted import CHANNEL, LEASE_MS, LOCK, MINE, OLDER, STRANGERS, THEIRS, Box, Ear
from .servers import AnyMaster


@pytest.fixture
def box(any_server: AnyMaster) -> Iterator[Box]:
    box = Box(any_server.url)
    yield box
    box.close()


@pytest.fixture
def ear(box: Box) -> Iterator[Ear]:
    ear = Ear(box.client)
    yield ear
    ear.close()


Call = Callable[[Box], Any]


# -- acquire ---------------------------------------------------------------------------------------------


def test_acquire_of_a_free_lock_is_granted_with_an_expiry(box: Box) -> None:
    assert box.acquire(count=3) == [1, MINE, 3, LEASE_MS]
    assert box.content() == ("hash", {MINE: "3"})
    assert LEASE_MS - 1000 < box.pttl() <= LEASE_MS


def test_acquire_delivered_twice_counts_once_and_prolongs_nothing(box: Box) -> None:
    box.acquire()
    time.sleep(0.02)
    before = box.pttl()
    with box.nothing_written():
        code, holder, count, ttl_ms = box.acquire(lease_ms=2 * LEASE_MS, count=2)
    assert (code, holder, count) == (1, MINE, 1), "the count that is stored is told, not the one of the call"
    assert 0 < ttl_ms <= before
    assert 0 < box.pttl() <= before


def test_acquire_is_refused_with_the_holder_and_what_is_left_of_its_lease(box: Box) -> None:
    box.acquire(THEIRS, count=4)
    with box.nothing_written():
        code, holder, count, ttl_ms = box.acquire()
    assert (code, holder, count) == (-1, THEIRS, 4)
    assert 0 < ttl_ms <= LEASE_MS


def test_acquire_is_refused_by_a_lock_of_the_same_client_s_earlier_owner(box: Box) -> None:
    box.acquire(OLDER)
    assert box.acquire()[:2] == [-1, OLDER]


def test_acquire_tells_a_holder_without_an_expiry(box: Box) -> None:
    box.client.hset(LOCK, THEIRS, 1)
    assert box.acquire() == [-1, THEIRS, 1, -1]
    assert box.content() == ("hash", {THEIRS: "1"})


def test_acquire_after_the_lease_has_run_out_is_granted(box: Box) -> None:
    box.acquire(THEIRS, lease_ms=15)
    time.sleep(0.03)
    assert box.acquire()[0] == 1
    assert box.content() == ("hash", {MINE: "1"})


def test_a_late_acquire_of_an_earlier_owner_does_not_touch_the_newer_one(box: Box) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    with box.nothing_written():
        assert box.acquire(OLDER)[:2] == [-1, MINE]


def test_an_acquire_whose_expiry_is_refused_leaves_nothing(box: Box) -> None:
    with pytest.raises(redis.ResponseError, match="not an integer"):
        box.acquire(lease_ms="soon")
    assert box.content() is None


@pytest.mark.parametrize("owner", ["", "ü:1", "a b:1", "x" * 2000, "{}:%d\n"])
def test_an_owner_of_any_characters_comes_back_as_it_was(box: Box, owner: str) -> None:
    assert box.acquire(owner)[:2] == [1, owner]
    assert box.acquire(THEIRS)[:2] == [-1, owner]
    assert box.release(owner)[:2] == [1, owner]
    assert box.content() is None


# -- release ---------------------------------------------------------------------------------------------


def test_release_frees_and_tells_each_subscriber_once(box: Box, ear: Ear) -> None:
    box.acquire(count=3)
    assert box.release(channel=CHANNEL, message="hello") == [1, MINE, 1, 0]
    assert box.content() is None
    assert ear.heard() == ["hello"]


def test_release_counts_the_subscribers_that_it_reached(box: Box, ear: Ear) -> None:
    box.acquire()
    assert box.release(channel="rlock:{other}:free") == [1, MINE, 0, 0]
    assert ear.heard() == []


def test_release_without_a_channel_frees_in_silence(box: Box, ear: Ear) -> None:
    anonymous = Ear(box.client, channel="")
    box.acquire()
    assert box.release(channel="") == [1, MINE, 0, 0]
    assert box.content() is None
    assert ear.heard() == []
    anonymous.close()


def test_release_delivered_twice_writes_and_publishes_once(box: Box, ear: Ear) -> None:
    box.acquire()
    box.release(channel=CHANNEL)
    with box.nothing_written():
        assert box.release(channel=CHANNEL) == [0, "", 0, -2]
    assert ear.heard() == ["0"]


def test_release_of_someone_else_s_lock_tells_whose_it_is(box: Box, ear: Ear) -> None:
    box.acquire(THEIRS, count=2)
    with box.nothing_written():
        code, holder, count, ttl_ms = box.release(channel=CHANNEL)
    assert (code, holder, count) == (-1, THEIRS, 2)
    assert 0 < ttl_ms <= LEASE_MS
    assert ear.heard() == []


def test_a_late_release_of_an_earlier_owner_does_not_free_the_newer_one(box: Box, ear: Ear) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    before = box.pttl()
    with box.nothing_written():
        assert box.release(OLDER, channel=CHANNEL)[:2] == [-1, MINE]
    assert 0 < box.pttl() <= before
    assert ear.heard() == []


def test_the_lock_is_free_before_its_waiters_hear_of_it(box: Box, ear: Ear) -> None:
    for turn in range(20):
        owner = f"me:{turn}"
        assert box.acquire(owner)[0] == 1
        box.release(owner, channel=CHANNEL, message=str(turn))
        assert box.content() is None
    assert ear.heard() == [str(turn) for turn in range(20)]


# -- status ----------------------------------------------------------------------------------------------


def test_status_of_a_free_lock_is_absent(box: Box) -> None:
    assert box.status() == [0, "", 0, -2]


def test_status_tells_the_holder_and_writes_nothing(box: Box) -> None:
    box.acquire(THEIRS, count=2)
    with box.nothing_written():
        code, holder, count, ttl_ms = box.status()
        assert (code, holder, count) == (1, THEIRS, 2)
        assert 0 < ttl_ms <= LEASE_MS
        assert box.status()[:3] == [1, THEIRS, 2]


def test_status_tells_a_lock_that_never_expires(box: Box) -> None:
    box.client.hset(LOCK, THEIRS, 1)
    assert box.status() == [1, THEIRS, 1, -1]


# -- evict -----------------------------------------------------------------------------------------------


def test_evict_removes_the_holder_that_was_named_and_wakes_once(box: Box, ear: Ear) -> None:
    box.acquire(THEIRS, count=2)
    code, holder, count, ttl_ms = box.evict(THEIRS, message="gone")
    assert (code, holder, count) == (1, THEIRS, 2)
    assert 0 < ttl_ms <= LEASE_MS
    assert box.content() is None
    assert ear.heard() == ["gone"]


def test_evict_delivered_twice_writes_and_publishes_once(box: Box, ear: Ear) -> None:
    box.acquire(THEIRS)
    box.evict(THEIRS)
    with box.nothing_written():
        assert box.evict(THEIRS) == [0, "", 0, -2]
    assert ear.heard() == ["0"]


def test_a_late_evict_leaves_the_holder_that_came_afterwards(box: Box, ear: Ear) -> None:
    box.acquire(MINE)
    with box.nothing_written():
        code, holder, count, ttl_ms = box.evict(THEIRS)
    assert (code, holder, count) == (-1, MINE, 1)
    assert 0 < ttl_ms <= LEASE_MS
    assert ear.heard() == []


def test_evict_removes_a_lock_that_would_never_expire(box: Box) -> None:
    box.client.hset(LOCK, THEIRS, 1)
    assert box.evict(THEIRS) == [1, THEIRS, 1, -1]
    assert box.content() is None


# -- what no lock wrote ----------------------------------------------------------------------------------

SINGLE: dict[str, Call] = {
    "acquire": lambda box: box.acquire(),
    "release": lambda box: box.release(channel=CHANNEL),
    "status": lambda box: box.status(),
    "evict": lambda box: box.evict(THEIRS),
}


@pytest.mark.parametrize("script", SINGLE)
@pytest.mark.parametrize("kind", STRANGERS)
def test_a_key_that_is_not_a_lock_is_named_so_and_left_alone(
    box: Box, ear: Ear, script: str, kind: str
) -> None:
    box.put(kind)
    with box.nothing_written():
        assert SINGLE[script](box) == [-2, "", 0, -1]
        assert SINGLE[script](box) == [-2, "", 0, -1]
    assert ear.heard() == []


@pytest.mark.parametrize("kind", STRANGERS)
def test_renew_of_a_key_that_is_not_a_lock_leaves_it_alone(box: Box, kind: str) -> None:
    box.put(kind)
    with box.nothing_written():
        assert box.renew() == [-1]
    assert box.pttl() == -1


def test_no_path_leaves_a_lock_without_an_expiry(box: Box) -> None:
    steps: list[Call] = [
        lambda box: box.acquire(),
        lambda box: box.acquire(count=2),
        lambda box: box.renew(count=2),
        lambda box: box.renew(count=1),
        lambda box: box.acquire(THEIRS),
        lambda box: box.renew(THEIRS),
        lambda box: box.release(THEIRS),
        lambda box: box.evict(THEIRS),
        lambda box: box.status(),
    ]
    for step in steps:
        step(box)
        assert 0 < box.pttl() <= LEASE_MS
    box.release()
    assert box.pttl() == -2
