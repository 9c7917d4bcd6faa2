"""Figures of what was measured, and how far noise may move them. Nanoseconds come in, microseconds go out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: With fewer rounds no interval of theirs has a confidence that is worth a verdict.
LEAST_ROUNDS = 5
#: Five rounds reach 93.75 % with their lowest and highest value. More rounds narrow the interval.
CONFIDENCE = 0.93
#: Samples behind each p99: with fewer, the p99 is the slowest sample.
SAMPLES_OF_A_P99 = 100


@dataclass(frozen=True)
class Estimate:
    """The median of some rounds, and the interval that holds the true median."""

    value: float
    low: float
    high: float
    rounds: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """The interval is one of order statistics: it assumes nothing about the distribution of the noise."""
    if not values:
        return None
    ordered = sorted(values)
    count = len(ordered)
    cut, outside = 0, 0.0
    while cut < (count - 1) // 2:
        # The chance that so few of the rounds lie on one side of the true median.
        outside += _chance(count, cut)
        if 1 - 2 * (outside + _chance(count, cut + 1)) < CONFIDENCE:
            break
        cut += 1
    return Estimate(statistics.median(ordered), ordered[cut], ordered[count - 1 - cut], count)


def _chance(count: int, below: int) -> float:
    """The chance that just so many of the rounds are below the true median."""
    # Not by math.comb: some thousand rounds would take minutes.
    ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
    return math.exp(ways - count * math.log(2))


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` percent of them do not exceed (nearest rank: always one of the values)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part / 100 * len(ordered)) - 1)]


def ratios(ours: Sequence[float], base: Sequence[float]) -> list[float]:
    """One ratio for each round: a slow moment of the machine hits both contestants of that round."""
    return [a / b for a, b in zip(ours, base, strict=False) if b]


def durations(rounds: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """The p50 of each round, and the p99 of as many rounds as have enough samples together."""
    batches = [batch for batch in rounds if batch]
    joined: list[list[float]] = [[]]
    for batch in batches:
        if len(joined[-1]) >= SAMPLES_OF_A_P99:
            joined.append([])
        joined[-1] += batch
    if len(joined) > 1 and len(joined[-1]) < SAMPLES_OF_A_P99:
        rest = joined.pop()
        joined[-1] += rest
    return {
        "p50_us": [statistics.median(batch) / 1e3 for batch in batches],
        "p99_us": [percentile(batch, 99) / 1e3 for batch in joined if batch],
    }
