"""What the tests of contestants share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from bench.harness.contestants import Contestant, prepare, select
from bench.harness.worker import Worker

TTL_MS = 2000


def contestant(key: str) -> Contestant:
    """The contestant with this key; the test is skipped where it cannot be built, without a network say."""
    (found,) = select([key])
    if reasons := prepare([found]):
        pytest.skip(f"{key}: {reasons[key]}")
    return found


def opened(key: str, urls: Sequence[str]) -> Worker:
    """Its process, connected to the masters."""
    found = contestant(key)
    worker = found.start()
    try:
        worker.ask("open", 30.0, **found.opening(urls, TTL_MS))
    except BaseException:
        worker.close()
        raise
    return worker


def contend(contestants: Sequence[Worker], lock: str, threads: int, seconds: float) -> list[list[Any]]:
    """All their sections by the time at which they were entered: [entered, left, (process, thread)]."""
    start_ns = time.monotonic_ns() + 100_000_000
    stop_ns = start_ns + round(seconds * 1e9)
    for worker in contestants:
        worker.send("contend", lock=lock, threads=threads, hold_us=1000, start_ns=start_ns, stop_ns=stop_ns)
    sections = []
    for i, worker in enumerate(contestants):
        reply = worker.answer()
        assert reply["errors"] == []
        for thread, asked, entered, left in reply["sections"]:
            assert start_ns <= asked <= stop_ns
            assert asked <= entered < left
            sections.append([entered, left, (i, thread)])
    return sorted(sections)
