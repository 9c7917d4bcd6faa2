"""The scripts on a master that is out of memory, and for users that may not do everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from . import test_lua_style as style
from .scripted import CHANNEL, LEASE_MS, LOCK, MINE, THEIRS, Box, Ear
from .servers import AnyMaster


@pytest.fixture
def box(any_server: AnyMaster) -> Iterator[Box]:
    box = Box(any_server.url)
    yield box
    box.close()


@pytest.fixture
def restricted(box: Box) -> Iterator[Callable[..., Box]]:
    """A second way into the same master, for a user with these ACL rules on top of everything allowed."""
    made: list[Box] = []

    def make(*rules: str) -> Box:
        box.client.execute_command("ACL", "SETUSER", "joe", "on", ">pw", "~*", "&*", "+@all", *rules)
        made.append(Box(box.url, user="joe", password="pw"))
        return made[-1]

    yield make
    for other in made:
        other.close()


def fill(box: Box) -> None:
    """From here on every command that may need memory is refused; the janitor lifts that."""
    box.client.config_set("maxmemory-policy", "noeviction")
    box.client.config_set("maxmemory", "1")
    with pytest.raises(redis.OutOfMemoryError):
        box.client.set("anything", "1")


# -- out of memory ---------------------------------------------------------------------------------------


def test_out_of_memory_an_acquire_is_an_error_and_leaves_nothing(box: Box) -> None:
    fill(box)
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        box.acquire()
    assert box.content() is None


def test_out_of_memory_an_acquire_still_tells_who_holds_the_lock(box: Box) -> None:
    box.acquire(THEIRS)
    fill(box)
    assert box.acquire()[:2] == [-1, THEIRS]
    assert box.acquire(THEIRS)[:2] == [1, THEIRS]
    assert box.status()[:2] == [1, THEIRS]


def test_out_of_memory_a_lease_is_still_prolonged(box: Box) -> None:
    box.acquire(lease_ms=5_000)
    fill(box)
    assert box.renew(count=1) == [1]
    assert 5_000 < box.pttl() <= LEASE_MS


def test_out_of_memory_a_lease_is_prolonged_even_if_its_count_cannot_be_told(box: Box) -> None:
    box.acquire(lease_ms=5_000)
    fill(box)
    assert box.renew(count=2) == [1]
    assert 5_000 < box.pttl() <= LEASE_MS
    assert box.content() == ("hash", {MINE: "1"})


def test_out_of_memory_a_release_still_frees_and_wakes(box: Box) -> None:
    ear = Ear(box.client)
    box.acquire()
    fill(box)
    assert box.release(channel=CHANNEL) == [1, MINE, 1, 0]
    assert box.content() is None
    assert ear.heard() == ["0"]
    ear.close()


def test_out_of_memory_an_operator_can_still_evict(box: Box) -> None:
    box.acquire()
    fill(box)
    assert box.evict()[0] == 1
    assert box.content() is None


# -- permissions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["-publish", "resetchannels"])
def test_without_leave_to_publish_a_release_still_frees_and_says_so(
    box: Box, restricted: Callable[..., Box], rule: str
) -> None:
    ear = Ear(box.client)
    user = restricted(rule)
    assert user.acquire()[0] == 1
    assert user.release(channel=CHANNEL) == [1, MINE, -1, 0]
    assert box.content() is None
    assert ear.heard() == []
    ear.close()


@pytest.mark.parametrize("rule", ["-publish", "resetchannels"])
def test_without_leave_to_publish_an_eviction_still_happens(
    box: Box, restricted: Callable[..., Box], rule: str
) -> None:
    box.acquire()
    assert restricted(rule).evict()[:2] == [1, MINE]
    assert box.content() is None


@pytest.mark.parametrize("rules", [("-pexpire",), ("-pexpire", "-del"), ("-pexpire", "-hdel")])
def test_without_leave_to_expire_an_acquire_is_an_error_and_leaves_nothing(
    box: Box, restricted: Callable[..., Box], rules: tuple[str, ...]
) -> None:
    """A key without an expiry would lock for ever."""
    with pytest.raises(redis.ResponseError, match=r"can't run this command|ACL failure"):
        restricted(*rules).acquire()
    assert box.content() is None


def test_without_leave_to_expire_a_renewal_is_an_error_and_keeps_the_lease(
    box: Box, restricted: Callable[..., Box]
) -> None:
    box.acquire(lease_ms=5_000)
    with pytest.raises(redis.ResponseError):
        restricted("-pexpire").renew()
    assert 0 < box.pttl() <= 5_000


def test_without_leave_to_write_an_acquire_is_an_error_and_leaves_nothing(
    box: Box, restricted: Callable[..., Box]
) -> None:
    with pytest.raises(redis.ResponseError):
        restricted("-hset").acquire()
    assert box.content() is None


@pytest.mark.parametrize("script", ["acquire", "release", "status", "evict", "renew"])
def test_a_refused_read_is_an_error_and_never_an_answer(
    box: Box, restricted: Callable[..., Box], script: str
) -> None:
    """An error that passes for *absent* or for *not a lock* would be counted as a vote."""
    box.acquire(THEIRS)
    user = restricted("-hlen", "-hget", "-hgetall")
    with pytest.raises(redis.ResponseError):
        getattr(user, script)()
    assert box.content() == ("hash", {THEIRS: "1"})


def test_a_user_needs_no_more_than_the_commands_that_the_scripts_call(
    box: Box, restricted: Callable[..., Box]
) -> None:
    needed = {*style.COMMANDS, "eval"}
    user = restricted("-@all", *(f"+{command}" for command in needed), "resetkeys", f"~{LOCK}*")
    assert user.acquire()[0] == 1
    assert user.renew(count=2) == [1]
    assert user.status()[0] == 1
    assert user.release(channel=CHANNEL)[0] == 1
    user.acquire()
    assert user.evict()[0] == 1
    assert box.content() is None
