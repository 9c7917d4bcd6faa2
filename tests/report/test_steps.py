"""Where the time of a pair goes: what is seen of a thread, and a short run on real masters."""

from __future__ import annotations

import signal
import time

import pytest

from bench.harness import sampling


def spinning(until: float) -> int:
    count = 0
    while time.monotonic() < until:
        count += 1
    return count


def outer(seconds: float) -> None:
    spinning(time.monotonic() + seconds)
    time.sleep(seconds)


def test_samples_are_where_the_time_is() -> None:
    with sampling.Sampler(seed=1) as sampler:
        outer(0.5)
    seen = {"spinning": 0, "outer": 0}
    for names, _, count in sampler.stacks("report/test_steps:outer"):
        seen[names[0].rpartition(":")[2] if names else "outer"] += count
    # Half of it computing, half of it asleep; a busy machine takes from both.
    assert sum(seen.values()) > 100
    assert 0.25 <= seen["spinning"] / sum(seen.values()) <= 0.75


def test_sampling_leaves_no_timer_and_no_handler_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), sampling.Sampler():
        1 / 0  # noqa: B018
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
