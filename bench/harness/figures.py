"""Figures out of what was measured. Durations come in nanoseconds and leave in microseconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` percent of them do not exceed (nearest rank: always one of the values)."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part / 100 * len(ordered)) - 1)]


def spread(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The lowest and the highest of the rounds' medians: how far a single round may lead astray."""
    medians = [statistics.median(batch) for batch in rounds if batch]
    return min(medians), max(medians)


def ratio(rounds: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float | None:
    """The median of the rounds' ratios: what a machine does in one round, it does to both in it."""
    pairs = [
        (statistics.median(a), statistics.median(b)) for a, b in zip(rounds, base, strict=False) if a and b
    ]
    return statistics.median(ours / its for ours, its in pairs) if pairs else None


def durations(rounds: Sequence[Sequence[float]]) -> dict[str, float]:
    """Median, p99, spread of the rounds' medians, and how many there were. Empty if there was none."""
    every = [ns for batch in rounds for ns in batch]
    if not every:
        return {}
    low, high = spread(rounds)
    return {
        "p50_us": statistics.median(every) / 1e3,
        "p99_us": percentile(every, 99) / 1e3,
        "p50_low_us": low / 1e3,
        "p50_high_us": high / 1e3,
        "count": float(len(every)),
    }
