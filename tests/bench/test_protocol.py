"""Contestants in Python answer the requests of the bench, on real masters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from bench.harness.worker import Worker

from ..servers import Fleet
from .contestants import opened as open_worker

Opened = Callable[[str], Worker]

#: One of each kind: threads or tasks, ours or a peer's.
KEYS = ["rlock", "rlock-asyncio", "redis-py", "redis-py-asyncio", "floor-message"]


@pytest.fixture
def opened(masters3: Fleet) -> Iterator[Opened]:
    """Processes of contestants, opened on three masters."""
    with ExitStack() as stack:
        yield lambda key: stack.enter_context(open_worker(key, masters3.urls))


@pytest.mark.parametrize("key", KEYS)
def test_who_waits_gets_the_lock_when_it_is_released_and_not_before(opened: Opened, key: str) -> None:
    one, other = opened(key), opened(key)
    # Again and again: a message of an earlier release must wake nobody.
    for holder, waiter in [(one, other), (other, one), (one, other)]:
        assert holder.ask("acquire", lock="a", wait_ms=1000)["acquired"]
        waiter.send("acquire", lock="a", wait_ms=1900)
        time.sleep(0.2)
        released = holder.ask("release", lock="a")
        got = waiter.answer()
        assert got["acquired"]
        assert got["asked"] < released["began"] < got["entered"]
        assert released["began"] < released["ended"]
        waiter.ask("release", lock="a")
        if key == "floor-message":
            assert got["entered"] < released["ended"] + 200_000_000, "no message woke it"
    assert holder.ask("acquire", lock="a", wait_ms=0)["acquired"]
    if key == "floor-message":
        return  # it answers no `pairs`
    reply = waiter.ask("pairs", lock="b", count=20)
    assert (len(reply["ns"]), reply["errors"]) == (20, [])
    assert waiter.ask("acquire", lock="b", wait_ms=0)["acquired"], "a pair left its lock"
