"""Figures of a history: hand-offs, owner changes, gaps, waits, fairness. Instants are nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .history import Attempt
from .journal import SECOND


def completed(holds: Sequence[Attempt]) -> list[Attempt]:
    """Holds that were released in time."""
    return [hold for hold in holds if hold.left_at is not None and not hold.lost]


def hand_offs(holds: Sequence[Attempt], waited: int = 0) -> list[tuple[Attempt, Attempt]]:
    """Each release, with the acquire of another contender that had been waiting for at least ``waited``."""
    return [
        (before, after)
        for before, after in pairwise(holds)
        if before.left_at is not None
        and before.contender != after.contender
        and after.asked_at < before.left_at - waited
        and before.left_at <= after.grant.at
    ]


def delays(pairs: Sequence[tuple[Attempt, Attempt]]) -> list[float]:
    """Seconds from the call of release to the return of the next owner's acquire."""
    return [
        (after.grant.at - before.left_at) / SECOND for before, after in pairs if before.left_at is not None
    ]


def owner_changes(holds: Sequence[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Neighbours of different contenders."""
    return [(a, b) for a, b in pairwise(holds) if a.contender != b.contender]


def longest_gap(instants: Sequence[int]) -> float:
    """The longest time between two instants that follow each other, in seconds."""
    return max((b - a for a, b in pairwise(instants)), default=0) / SECOND


def rate(holds: Sequence[Attempt], begin_at: int, end_at: int) -> float:
    """Completed holds a second, between two instants."""
    inside = sum(begin_at <= (hold.left_at or 0) < end_at for hold in completed(holds))
    return inside / ((end_at - begin_at) / SECOND) if end_at > begin_at else 0.0


def jain(counts: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 when all had as much, 1/k when one of k had all; None: nobody had any."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else None
