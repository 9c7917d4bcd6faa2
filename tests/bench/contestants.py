"""What the tests of contestants share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from bench.harness.contestant import Contestant
from bench.harness.field import Entry, field, prepare

TTL_MS = 2000


def entry(key: str) -> Entry:
    """The contestant with this key; the test is skipped where it cannot be built, without a network say."""
    (found,) = field([key])
    if reasons := prepare([found]):
        pytest.skip(f"{key}: {reasons[key]}")
    return found


def contend(contestants: Sequence[Contestant], lock: str, threads: int, seconds: float) -> list[list[Any]]:
    """All their sections by the time at which they were entered: [entered, left, (process, thread)]."""
    start_ns = time.monotonic_ns() + 100_000_000
    stop_ns = start_ns + round(seconds * 1e9)
    for contestant in contestants:
        contestant.send(
            "contend", lock=lock, threads=threads, hold_us=1000, start_ns=start_ns, stop_ns=stop_ns
        )
    sections = []
    for i, contestant in enumerate(contestants):
        reply = contestant.answer()
        assert reply["errors"] == []
        for thread, asked, entered, left in reply["sections"]:
            assert start_ns <= asked <= stop_ns
            assert asked <= entered < left
            sections.append([entered, left, (i, thread)])
    return sorted(sections)
