"""heal and the ban that a release leaves, on every server found: keys that a master has lost come back."""

from __future__ import annotations

import pytest
import redis

from ..scripted import CHANNEL, EVICTED, FENCE, FENCE_MS, LEASE_MS, LOCK, MINE, OLDER, TOKEN, Box

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
