"""What every contestant in Python answers, on real masters."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis

from bench.harness.contestant import Contestant, Unsupported
from bench.harness.field import ALL

from ..servers import Fleet
from .contestants import TTL_MS, contend, entry

Opened = Callable[[str], Contestant]

#: Each adapter once: the tuned ones are the same with another number.
LOCKS = [
    found.key for found in ALL if found.language == "Python" and found.family != "floor" and not found.tuned
]
#: One of each kind: threads or tasks, ours or a peer's.
SOME = ["rlock", "rlock-asyncio", "redis-py", "redis-py-asyncio"]
REENTRANT = {"rlock", "rlock-fair", "rlock-asyncio", "redlock-plus"}
RENEWING = REENTRANT | {"python-redis-lock", "aioredlock"}


@pytest.fixture
def opened(masters3: Fleet) -> Iterator[Opened]:
    """Processes of contestants, opened on three masters."""
    with ExitStack() as stack:
        yield lambda key: stack.enter_context(entry(key).open(masters3.urls, TTL_MS))


@pytest.mark.parametrize("key", LOCKS)
def test_two_processes_never_have_the_lock_at_the_same_time(opened: Opened, key: str) -> None:
    sections = contend([opened(key), opened(key)], "shared", 2, 0.6)
    for (_, left, _), (entered, _, _) in itertools.pairwise(sections):
        assert left <= entered
    assert len(sections) > 10


@pytest.mark.parametrize("key", LOCKS)
def test_who_waits_gets_the_lock_when_it_is_released_and_not_before(opened: Opened, key: str) -> None:
    holder, waiter = opened(key), opened(key)
    assert holder.ask("acquire", lock="a", wait_ms=1000)["acquired"]
    waiter.send("acquire", lock="a", wait_ms=1900)
    time.sleep(0.2)
    released = holder.ask("release", lock="a")
    got = waiter.answer()
    assert got["acquired"]
    assert got["asked"] < released["began"] < got["entered"]
    assert released["began"] < released["ended"]
    waiter.ask("release", lock="a")
    assert holder.ask("acquire", lock="a", wait_ms=0)["acquired"]


@pytest.mark.parametrize("key", LOCKS)
def test_who_waits_in_vain_is_told_after_the_time_that_it_had(opened: Opened, key: str) -> None:
    holder, waiter = opened(key), opened(key)
    assert holder.ask("acquire", lock="a", wait_ms=1000)["acquired"]
    told = waiter.ask("acquire", lock="a", wait_ms=1000)
    assert not told["acquired"]
    # A poller gives up when its next look would come too late.
    assert 0.7e9 < told["entered"] - told["asked"] < 1.8e9
    assert not waiter.ask("acquire", lock="a", wait_ms=0)["acquired"]


@pytest.mark.parametrize("key", LOCKS)
def test_what_is_held_is_kept_beyond_its_lease_until_it_is_dropped(opened: Opened, key: str) -> None:
    holder = opened(key)
    if key not in RENEWING:
        with pytest.raises(Unsupported, match="renews"):
            holder.ask("hold", prefix="h", count=2)
        return
    assert holder.ask("hold", prefix="h", count=2) == {"acquired": 2}
    time.sleep(1.5 * TTL_MS / 1000)
    other = opened(key)
    assert not other.ask("acquire", lock="h1", wait_ms=0)["acquired"]
    holder.ask("drop", prefix="h", count=2)
    assert other.ask("acquire", lock="h1", wait_ms=0)["acquired"]


@pytest.mark.parametrize("key", LOCKS)
def test_nested_pairs_are_measured_where_the_lock_is_reentrant(opened: Opened, key: str) -> None:
    contestant = opened(key)
    if key not in REENTRANT:
        with pytest.raises(Unsupported, match="not reentrant"):
            contestant.ask("nested", lock="a", count=3)
        return
    reply = contestant.ask("nested", lock="a", count=3)
    assert len(reply["ns"]) == 3
    assert reply["errors"] == []
    assert opened(key).ask("acquire", lock="a", wait_ms=0)["acquired"], "the outer hold was not released"


@pytest.mark.parametrize("key", SOME)
def test_pairs_take_a_time_each_and_leave_no_lock(opened: Opened, masters3: Fleet, key: str) -> None:
    contestant = opened(key)
    began = time.monotonic_ns()
    reply = contestant.ask("pairs", lock="a", count=20)
    passed = time.monotonic_ns() - began
    assert len(reply["ns"]) == 20
    assert reply["errors"] == []
    assert min(reply["ns"]) > 10_000
    assert sum(reply["ns"]) < passed
    assert not any(redis.Redis.from_url(url).exists("a") for url in masters3.urls)


@pytest.mark.parametrize("key", SOME)
def test_throughput_counts_the_pairs_of_all_threads(opened: Opened, key: str) -> None:
    reply = opened(key).ask("throughput", prefix="t", threads=3, seconds=0.4)
    assert reply["errors"] == []
    assert reply["pairs"] > 10
    assert 0.4e9 <= reply["ns"] < 5e9


@pytest.mark.parametrize("key", SOME)
def test_each_name_is_acquired_once(opened: Opened, masters3: Fleet, key: str) -> None:
    contestant = opened(key)
    with redis.Redis.from_url(masters3.urls[0]).monitor() as monitor:
        assert contestant.ask("names", prefix="n", first=7, count=3) == {"done": 3, "errors": []}
        redis.Redis.from_url(masters3.urls[0]).echo("that is all")
        seen = []
        for command in monitor.listen():
            if "that is all" in command["command"]:
                break
            seen.append(command["command"])
    for name in ("n7", "n8", "n9"):
        assert any(name in command.split() for command in seen)
    assert not any("n6" in command.split() or "n10" in command.split() for command in seen)


@pytest.mark.parametrize("key", SOME)
def test_threads_that_wait_do_so_in_the_background(opened: Opened, key: str) -> None:
    holder, waiter = opened(key), opened(key)
    holder.ask("acquire", lock="a", wait_ms=1000)
    assert waiter.ask("wait", lock="a", threads=2) == {"waiting": 2}
    assert len(waiter.ask("pairs", lock="b", count=2)["ns"]) == 2
    time.sleep(0.3)
    holder.ask("release", lock="a")
    time.sleep(0.5)
    assert not holder.ask("acquire", lock="a", wait_ms=0)["acquired"], "none of them got the lock"


@pytest.mark.parametrize("key", SOME)
def test_usage_is_that_of_the_contestants_process(opened: Opened, key: str) -> None:
    contestant = opened(key)
    before = contestant.ask("usage")
    contestant.ask("pairs", lock="a", count=50)
    after = contestant.ask("usage")
    assert 0 < after["cpu_ns"] - before["cpu_ns"] < 5e9
    with open(f"/proc/{contestant.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    assert after["rss_bytes"] == pytest.approx(int(line.split()[1]) * 1024, rel=0.2)


@pytest.mark.parametrize("key", ["rlock", "rlock-asyncio"])
def test_quit_ends_it_although_threads_still_wait(opened: Opened, key: str) -> None:
    holder, waiter = opened(key), opened(key)
    holder.ask("acquire", lock="a", wait_ms=1000)
    waiter.ask("wait", lock="a", threads=2)
    waiter.send("quit")
    until = time.monotonic() + 5
    while time.monotonic() < until and not _has_ended(waiter.pid):
        time.sleep(0.01)
    assert _has_ended(waiter.pid)


def _has_ended(pid: int) -> bool:
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None
