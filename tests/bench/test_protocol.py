"""Contestants in Python answer the requests of the bench, on real masters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis

from bench.harness.worker import Worker

from ..servers import Fleet
from .contestants import opened as open_worker

Opened = Callable[[str], Worker]

#: One of each kind: threads or tasks, ours or a peer's.
KEYS = ["rlock", "rlock-asyncio", "redis-py", "redis-py-asyncio"]


@pytest.fixture
def opened(masters3: Fleet) -> Iterator[Opened]:
    """Processes of contestants, opened on three masters."""
    with ExitStack() as stack:
        yield lambda key: stack.enter_context(open_worker(key, masters3.urls))


@pytest.mark.parametrize("key", KEYS)
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


@pytest.mark.parametrize("key", KEYS)
def test_pairs_take_a_time_each_and_leave_no_lock(opened: Opened, masters3: Fleet, key: str) -> None:
    worker = opened(key)
    began = time.monotonic_ns()
    reply = worker.ask("pairs", lock="a", count=20)
    passed = time.monotonic_ns() - began
    assert len(reply["ns"]) == 20
    assert reply["errors"] == []
    assert min(reply["ns"]) > 10_000
    assert sum(reply["ns"]) < passed
    assert not any(redis.Redis.from_url(url).exists("a") for url in masters3.urls)
