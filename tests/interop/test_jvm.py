"""The harness itself: the clock that both sides share, errors, and processes that end."""

from __future__ import annotations

import time

from .jvm import Jvm


def test_java_reads_the_clock_that_python_reads(jvm: Jvm) -> None:
    for _ in range(20):
        before = time.monotonic_ns()
        told = jvm.clock()
        assert before <= told <= time.monotonic_ns(), "not one clock: no journal can be compared"
