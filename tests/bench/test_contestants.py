"""The workers of contestants on real masters, and the floors: they send what the lock sends."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from bench.harness import builds
from bench.harness.builds import Broken
from bench.harness.contestants import ALL, select
from bench.harness.sections import overlaps, sections_of
from bench.harness.worker import Failed, Worker

from ..servers import Fleet, left

TTL_MS = 2000
#: A JVM that starts, and warms up, while the machine has other work.
OPEN_S = 90.0


def built(environment: str) -> list[str]:
    """The command of its program; the test is skipped where it cannot be built, without a network say."""
    try:
        return builds.command(environment)
    except Broken:
        raise
    except Failed as why:
        pytest.skip(f"{environment}: {why}")


def opened(key: str, urls: Sequence[str], **more: Any) -> Worker:
    """Its process, connected to the masters; ``more`` are fields of its `open` request."""
    (found,) = select([key])
    built(found.environment)
    worker = found.start()
    try:
        worker.ask("open", OPEN_S, **{**found.opening(urls, TTL_MS), **more})
    except BaseException:
        worker.close()
        raise
    return worker


#: Peers that poll get a short pause: their default pauses would only make the tests long.
QUICK: dict[str, dict[str, Any]] = {
    "rlock": {},
    "rlock-asyncio": {},
    "redis-py": {"poll_ms": 5},
    "redis-py-asyncio": {"poll_ms": 5},
    "node-redlock": {"poll_ms": 5},
    "redisson-rlock": {"warm_ms": 100},
    "redsync": {"poll_ms": 5},
}


@pytest.mark.parametrize("key", QUICK)
def test_pairs_leave_nothing_and_two_processes_exclude_each_other(key: str, masters3: Fleet) -> None:
    with opened(key, masters3.urls, **QUICK[key]) as one, opened(key, masters3.urls, **QUICK[key]) as other:
        pairs(one, masters3.urls)
        contest(one, other)


def pairs(one: Worker, urls: list[str]) -> None:
    began = time.monotonic_ns()
    told = one.ask("loop", lock="pairs", count=50)
    assert told["errors"] == []
    took = [section[-1] - section[1] for section in told["sections"]]
    assert len(took) == 50
    assert min(took) > 50_000  # not less than a round trip, whatever the unit
    assert sum(took) < time.monotonic_ns() - began
    # Redisson removes a note of each release after it.
    until = time.monotonic() + 5
    while any(map(left, urls)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(left, urls))


def contest(one: Worker, other: Worker) -> None:
    start = time.monotonic_ns() + 100_000_000
    stop = start + 600_000_000
    request = {"lock": "contest", "threads": 2, "hold_us": 2000, "start_ns": start, "stop_ns": stop}
    for worker in (one, other):
        worker.send("loop", **request)
    told = [worker.answer() for worker in (one, other)]
    assert [each["errors"] for each in told] == [[], []]
    assert all(len(each["sections"]) > 2 for each in told)
    assert overlaps(sections_of(told)[0]) == 0


FLOORS = [found.key for found in ALL if found.family == "floor"]


def sent(worker: Worker, url: str) -> list[str]:
    """All commands that one pair makes a master run, those inside of scripts too, whoever asks and when."""
    worker.ask("loop", lock="a", count=3)
    client = redis.Redis.from_url(url)
    seen: list[str] = []
    with client.monitor() as monitor:
        worker.ask("loop", lock="a", count=1)
        client.echo("that is all")
        for command in monitor.listen():
            text = command["command"]
            if "that is all" in text:
                return seen
            if "HELLO" not in text and "CLIENT" not in text:
                seen.append(re.sub(r"\b\d{16}\b", "TOKEN", re.sub(r"\S+:[0-9a-f]{32}\b", "OWNER", text)))
    raise AssertionError("the monitor ended")


@pytest.mark.parametrize("key", FLOORS)
def test_a_floor_has_a_master_do_what_a_pair_of_the_lock_does(masters1: Fleet, key: str) -> None:
    with opened("rlock", masters1.urls) as ours, opened(key, masters1.urls) as floor:
        commands = sent(ours, masters1.urls[0])
        assert len([text for text in commands if text.startswith("EVALSHA")]) == 2
        assert sent(floor, masters1.urls[0]) == commands
