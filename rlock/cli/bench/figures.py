"""Figures out of measured times, and what `rlock bench` prints. Times are seconds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Spread:
    """How measured times are spread. None: there was none."""

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        """The spread of some times."""
        if not times:
            return cls(0, None, None, None, None)
        if len(times) == 1:
            return cls(1, times[0], times[0], times[0], times[0])
        cuts = statistics.quantiles(times, n=100, method="inclusive")
        return cls(len(times), cuts[49], cuts[89], cuts[98], max(times))


def jain(counts: Sequence[int]) -> float | None:
    """Jain's index of fairness: 1 when all had as many turns, 1/k when one of k had all of them."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else None


@dataclass(frozen=True)
class Section:
    """One critical section: before acquire, after it, before release. Instants of one clock."""

    worker: int
    asked: float
    entered: float
    left: float


def in_order(sections: Iterable[Section]) -> list[Section]:
    """As they were entered."""
    return sorted(sections, key=lambda section: section.entered)


def hand_offs(sections: Sequence[Section], parked: float) -> list[float]:
    """From one owner's call of release to another one's return from acquire, in seconds.

    Only of those who had asked at least ``parked`` seconds before: they were waiting.
    """
    return [
        after.entered - before.left
        for before, after in pairwise(sections)
        if after.worker != before.worker and before.left - after.asked >= parked
    ]


def owner_changes(sections: Sequence[Section]) -> int:
    """How often the next section was another worker's."""
    return sum(a.worker != b.worker for a, b in pairwise(sections))


def overlaps(sections: Sequence[Section]) -> int:
    """Sections that began while an earlier one went on: with a lock, none."""
    found, until = 0, float("-inf")
    for section in sections:
        found += section.entered < until
        until = max(until, section.left)
    return found
