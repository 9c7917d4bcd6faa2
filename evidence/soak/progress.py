"""Progress: acquires that have to come to an end. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise

from rlock.testing.contention.checker import Eviction, Finding
from rlock.testing.contention.history import Attempt, History, stamp
from rlock.testing.contention.journal import SECOND


def lost_early(holds: Iterable[Attempt], evictions: Iterable[Eviction] = ()) -> list[Attempt]:
    """Holds that were lost while validity was left, and were not evicted: no overlap, but a promise less."""
    owners = {owner for eviction in evictions for owner in eviction.owners}
    return [
        hold
        for hold in holds
        if hold.grant.owner not in owners
        and any(not b.valid and b.by < a.valid_until for a, b in pairwise(hold.looks) if a.valid)
    ]


def judge_progress(
    history: History, killed: Collection[str], quiet_at: int, until: int, bound_s: float
) -> list[Finding]:
    """Attempts that waited for longer than the bound after the faults had ended."""
    found = []
    for attempt in _alive(history, killed):
        waited = (_end(attempt, until) - max(attempt.asked_at, quiet_at)) / SECOND
        if attempt.timeout < 0 and waited > bound_s:
            told = f"waited {waited:.1f} s after {stamp(quiet_at)}\n    {attempt}"
            found.append(Finding("progress", told, (attempt.id,)))
    return found


def judge_ends(history: History, killed: Collection[str]) -> list[Finding]:
    """A process that ends by itself brings its attempts to an end first."""
    return [
        Finding("unfinished", f"\n    {attempt}", (attempt.id,))
        for attempt in _alive(history, killed)
        if attempt.done_at is None and attempt.process in history.ended
    ]


def _alive(history: History, killed: Collection[str]) -> list[Attempt]:
    return [attempt for attempt in history.attempts if attempt.process not in killed]


def _end(attempt: Attempt, until: int) -> int:
    """The end of its waiting; ``until`` for an attempt that still waits then."""
    at = attempt.grant.at if attempt.held else attempt.done_at
    return until if at is None else min(at, until)
