"""release and heal, on every server found: a second delivery, a late release, and what a user may not do.

evidence/simulation/test_model.py compares all other replies, keys and messages with those of the model.
"""

from __future__ import annotations

import pytest
import redis

from ..scripted import (
    CHANNEL,
    EVICTED,
    FENCE,
    FENCE_MS,
    LEASE_MS,
    LOCK,
    MINE,
    THEIRS,
    TOKEN,
    Box,
    Ear,
)


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


# -- healing, and the ban that an eviction leaves

BAN_MS = 20_000


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
