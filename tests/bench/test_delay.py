"""The proxy that makes masters far: late, and nothing else."""

from __future__ import annotations

import pytest

from bench.harness.delay import Delay, round_trip_us
from tests.servers import Fleet

#: The clock is read twice, a moment apart.
EARLY_S = 0.00005


def fastest_s(url: str) -> float:
    """Of some round trips the shortest: a machine that is busy adds to them, and takes nothing away."""
    return min(round_trip_us(url, 1) for _ in range(15)) / 1e6


@pytest.mark.parametrize("rtt_ms", [1, 20])
def test_a_round_trip_takes_what_was_ordered(real_masters: Fleet, rtt_ms: int) -> None:
    with Delay(real_masters.urls[:1]) as delay:
        delay.set(rtt_ms)
        found = fastest_s(delay.urls[0])
    assert rtt_ms / 1e3 - EARLY_S <= found <= rtt_ms / 1e3 + 0.002
