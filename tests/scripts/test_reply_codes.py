"""acquire, release, renew and heal, on every server found: second deliveries, late commands, and the note.

evidence/simulation/test_model.py compares all other replies, keys and messages with those of the model.
"""

from __future__ import annotations

import time

import pytest
import redis

from ..scripted import (
    CHANNEL,
    EVICTED,
    FENCE,
    FENCE_MS,
    LEASE_MS,
    LIFE,
    LOCK,
    MINE,
    NOTE,
    OLDER,
    THEIRS,
    TOKEN,
    Box,
    Ear,
)
from .test_handshake import noted


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


@pytest.mark.rule("3.3")
def test_renew_delivered_twice_leaves_the_same_count_and_the_same_lease(box: Box) -> None:
    box.acquire()
    box.renew(count=2)
    time.sleep(0.2)
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 150 <= box.pttl() <= LEASE_MS, "counted from its own arrival, and not added up"


@pytest.mark.parametrize("holder", [OLDER, THEIRS])
def test_a_late_renewal_does_not_prolong_the_lease_of_the_next_owner(box: Box, holder: str) -> None:
    box.acquire(holder, lease_ms=5_000)
    with box.nothing_written():
        assert box.renew(lease_ms=LEASE_MS, count=7) == [-1]
    assert 0 < box.pttl() <= 5_000


# -- healing, and the ban that an eviction leaves

BAN_MS = 20_000


def test_an_owner_that_was_evicted_is_not_put_back(box: Box) -> None:
    box.acquire()
    assert box.release(channel=CHANNEL, ban_ms=BAN_MS)[0] == 1
    with box.nothing_written():
        assert box.heal() == [-1]
    assert box.content() is None
    assert box.heal(OLDER) == [2], "another one is"
    box.release(OLDER, CHANNEL, ban_ms=BAN_MS)
    assert box.heal() == box.heal(OLDER) == [-1], "a ban of the next one does not end the first"


def test_out_of_memory_nothing_is_put_back_and_nothing_written(box: Box) -> None:
    box.fill()
    with box.nothing_written():
        assert box.heal() == [0]
    assert (box.content(), box.fenced()) == (None, None)


@pytest.mark.parametrize("rules", [("-pexpire",), ("-pexpire", "-del"), ("-pexpire", "-hdel"), ("-hset",)])
def test_without_leave_to_write_or_to_expire_nothing_is_left(box: Box, rules: tuple[str, ...]) -> None:
    """A key without an expiry would lock for ever."""
    assert box.restricted(*rules).heal() == [0]
    assert (box.content(), box.fenced()) == (None, None)


def test_without_leave_to_read_who_was_evicted_nobody_is_put_back(box: Box) -> None:
    box.release(ban_ms=BAN_MS)
    user = box.restricted("-get")
    with box.nothing_written():
        assert user.call("heal", [LOCK, FENCE, EVICTED], LEASE_MS, FENCE_MS, MINE, 1, TOKEN)[1] == [0]
    assert box.content() is None


@pytest.mark.parametrize("rules", [("-set",), ("-hdel",), ("-set", "-get")])
def test_without_leave_to_ban_an_eviction_never_stops_half_way(box: Box, rules: tuple[str, ...]) -> None:
    """Either the lock is free, or the answer is an error and it is held as before."""
    box.acquire()
    user = box.restricted(*rules)
    if "-hdel" in rules:
        with pytest.raises(redis.ResponseError):
            user.release(ban_ms=BAN_MS)
        assert box.content() == ("hash", {MINE: "1"})
    else:
        assert user.release(ban_ms=BAN_MS)[0] == 1
        assert box.content() is None


def test_a_token_that_is_ahead_of_the_time_is_remembered_until_its_own_time_is_over(box: Box) -> None:
    """A master that forgot it earlier could give its own time, which is lower."""
    ahead_ms = 86_400_000
    box.heal(token=box.time_us() + 1000 * ahead_ms)
    assert FENCE_MS + ahead_ms - 5_000 < box.pttl(FENCE) <= FENCE_MS + ahead_ms


# -- the note of a master's memory


@pytest.fixture
def short(box: Box) -> Box:
    """A master on which no lease was longer than 10 s."""
    box.client.set(NOTE, f"{LIFE} 5 10000")
    return box


def longest(box: Box) -> int:
    """The longest lease that the note tells of; the rest of it stays as it was."""
    note = noted(box)
    assert (note.run_id, note.since_us, box.pttl(NOTE)) == (LIFE, 5, -1)
    return note.max_ttl_ms


def test_only_a_renewal_by_the_holder_raises_the_longest_lease_in_the_note(short: Box) -> None:
    """An acquire may fail on the other masters. It would stop a fleet with shorter leases for as long."""
    short.granted(lease_ms=60_000)
    assert short.renew(THEIRS, 70_000) == [-1]
    assert longest(short) == 10_000
    assert short.renew(lease_ms=60_000) == short.renew(lease_ms=5_000) == [1]
    assert longest(short) == 60_000
