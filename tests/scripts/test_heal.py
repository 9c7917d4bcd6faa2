"""heal and the ban that a release leaves, on every server found: keys that a master has lost come back."""

from __future__ import annotations

import time

import pytest
import redis

from ..scripted import CHANNEL, EVICTED, FENCE, FENCE_MS, LEASE_MS, LOCK, MINE, OLDER, THEIRS, TOKEN, Box, Ear

BAN_MS = 20_000


def test_an_absent_lock_is_put_back_with_its_count_its_lease_and_its_token(box: Box) -> None:
    assert box.heal(count=3) == [2]
    assert box.content() == ("hash", {MINE: "3"})
    assert LEASE_MS - 1000 < box.pttl() <= LEASE_MS
    assert box.fenced() == (TOKEN, MINE)
    assert FENCE_MS - 5_000 < box.pttl(FENCE) <= FENCE_MS


@pytest.mark.parametrize(
    ("stored", "left"),
    [(TOKEN - 1, (TOKEN, MINE)), (TOKEN, (TOKEN, THEIRS)), (TOKEN + 1, (TOKEN + 1, THEIRS))],
)
def test_only_a_lower_token_is_written_over(box: Box, stored: int, left: tuple[int, str]) -> None:
    """A higher one was given to somebody who may come before the resource."""
    box.fence(THEIRS, stored)
    assert box.heal(token=TOKEN) == [2]
    assert box.fenced() == left


def test_a_second_delivery_renews_and_counts_the_lease_from_its_own_arrival(box: Box) -> None:
    box.heal(count=2)
    box.client.set(FENCE, f"{TOKEN} {MINE}", px=5_000)
    time.sleep(0.02)
    assert box.heal(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 15 <= box.pttl() <= LEASE_MS, "not added up"
    assert box.pttl(FENCE) <= 5_000, "the token is left as it is"


def test_the_owner_s_own_lock_is_renewed(box: Box) -> None:
    box.hold(count=2, lease_ms=5_000)
    assert box.heal(count=3) == [1]
    assert 5_000 < box.pttl() <= LEASE_MS
    assert box.content() == ("hash", {MINE: "2"}), "to tell the count is for a renewal"


@pytest.mark.rule("3.7")
@pytest.mark.parametrize("holder", [OLDER, THEIRS])
def test_a_lock_of_somebody_else_is_left_alone(box: Box, holder: str) -> None:
    box.acquire(holder, lease_ms=5_000)
    with box.nothing_written():
        assert box.heal() == [-1]
    assert 0 < box.pttl() <= 5_000
    assert box.fenced() == (TOKEN, holder)


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


@pytest.mark.parametrize(("holder", "code"), [(MINE, 1), (THEIRS, -1), (None, 0)])
def test_a_release_with_a_ban_names_the_owner_for_so_long_whoever_has_the_lock(
    box: Box, holder: str | None, code: int
) -> None:
    """On a master that has lost the key, too: there it would be put back."""
    if holder:
        box.acquire(holder)
    assert box.release(channel=CHANNEL, ban_ms=BAN_MS)[0] == code
    assert box.content(EVICTED) == ("string", MINE)
    assert BAN_MS - 5_000 < box.pttl(EVICTED) <= BAN_MS
    assert box.content() == (("hash", {THEIRS: "1"}) if holder == THEIRS else None)


def test_out_of_memory_an_eviction_still_frees_and_still_bans(box: Box, ear: Ear) -> None:
    """It may be what an operator does about it."""
    box.acquire()
    box.fill()
    assert box.release(channel=CHANNEL, ban_ms=BAN_MS) == [1, MINE, 1, 0, 0]
    assert box.content(EVICTED) == ("string", MINE)
    assert box.content() is None
    assert ear.heard() == ["0"]


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
