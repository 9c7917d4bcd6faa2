"""One contestant of each other language, on real masters; skipped if it cannot be built."""

from __future__ import annotations

import itertools
import time

import pytest

from bench.harness import builds
from bench.harness.builds import Broken
from bench.harness.worker import Failed, Worker

from ..servers import Fleet, left

#: A JVM that starts, and warms up, while the machine has other work.
OPEN_S = 90.0
TTL_MS = 10_000
ADAPTERS = {"redlock5": "node", "rlock": "java", "redsync": "go"}


def command(adapter: str) -> list[str]:
    try:
        return [*builds.command(ADAPTERS[adapter]), adapter]
    except Broken:
        raise
    except Failed as why:
        pytest.skip(str(why))


def opened(adapter: str, urls: list[str]) -> Worker:
    # Those that poll look often: what is tested is not how long their defaults wait.
    how = {"poll_ms": None, "warm_ms": 100} if ADAPTERS[adapter] == "java" else {"poll_ms": 5}
    worker = Worker(command(adapter))
    try:
        worker.ask("open", OPEN_S, masters=urls, ttl_ms=TTL_MS, **how)
    except BaseException:
        worker.close()
        raise
    return worker


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_pairs_leave_nothing_and_two_processes_exclude_each_other(adapter: str, masters3: Fleet) -> None:
    with opened(adapter, masters3.urls) as one, opened(adapter, masters3.urls) as other:
        pairs(one, masters3.urls)
        contest(one, other)


def pairs(one: Worker, urls: list[str]) -> None:
    began = time.monotonic_ns()
    told = one.ask("pairs", lock="pairs", count=50)
    assert told["errors"] == []
    assert len(told["ns"]) == 50
    assert min(told["ns"]) > 50_000  # not less than a round trip, whatever the unit
    assert sum(told["ns"]) < time.monotonic_ns() - began
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
        worker.send("contend", **request)
    told = [worker.answer() for worker in (one, other)]
    assert [each["errors"] for each in told] == [[], []]
    assert all(len(each["sections"]) > 2 for each in told)
    sections = sorted((entered, left) for each in told for _, _, entered, left in each["sections"])
    for earlier, later in itertools.pairwise(sections):
        assert earlier[1] <= later[0]
