"""Progress: acquires that have to come to an end, and locks that must not stay free. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from rlock.testing.contention.checker import Eviction, Finding, by_lock
from rlock.testing.contention.figures import longest_gap
from rlock.testing.contention.history import Attempt, History, stamp
from rlock.testing.contention.journal import SECOND


def late(attempts: Iterable[Attempt], quiet_at: int, until: int, bound: int) -> list[tuple[Attempt, int]]:
    """Attempts that waited for longer than the bound after the faults had ended, and for how long."""
    found = []
    for attempt in attempts:
        waited = _end(attempt, until) - max(attempt.asked_at, quiet_at)
        if attempt.timeout < 0 and waited > bound:
            found.append((attempt, waited))
    return found


def unfinished(history: History, killed: Collection[str]) -> list[Attempt]:
    """Attempts without an end, of processes that ended by themselves."""
    return [
        attempt
        for attempt in history.attempts
        if attempt.done_at is None and attempt.process in history.ended and attempt.process not in killed
    ]


def longest_gaps(holds: Iterable[Attempt]) -> dict[str, float]:
    """For each lock the longest time, in seconds, in which nobody got it."""
    return {name: longest_gap([h.grant.at for h in held]) for name, held in sorted(by_lock(holds).items())}


class Stall(NamedTuple):
    """A lock that was free, and a waiter that did not get it for so long."""

    before: Attempt
    waiter: Attempt
    ns: int


def stalls(holds: Sequence[Attempt], attempts: Iterable[Attempt], now: int, bound: int) -> list[Stall]:
    """Where a lock stood free for longer than the bound while somebody waited for it, once for each gap.

    Free is what was released, or whose holder has no validity left. Only for runs whose faults do not
    explain it: nobody stopped, and a quorum always there. ``attempts`` are those of processes that live.
    """
    found = []
    waiting: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.timeout < 0:
            waiting[attempt.lock].append(attempt)
    for name, held in by_lock(holds).items():
        for before, after in zip_longest(held, held[1:]):
            free_at = before.valid_to if before.done_at is None else before.done_at
            taken_at = now if after is None else after.grant.at
            if taken_at - free_at <= bound:
                continue
            for waiter in waiting[name]:
                waited = _end(waiter, taken_at) - max(free_at, waiter.asked_at)
                if waited > bound:
                    found.append(Stall(before, waiter, waited))
                    break
    return found


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
    """Attempts that have to come to an end once the faults have ended."""
    bound = int(bound_s * SECOND)
    alive = [attempt for attempt in history.attempts if attempt.process not in killed]
    return [
        Finding(
            "progress",
            f"waited {waited / SECOND:.1f} s after {stamp(quiet_at)}\n    {attempt}",
            (attempt.id,),
        )
        for attempt, waited in late(alive, quiet_at, until, bound)
    ]


def judge_ends(history: History, killed: Collection[str]) -> list[Finding]:
    """A process that ends by itself brings its attempts to an end first."""
    return [Finding("unfinished", f"\n    {a}", (a.id,)) for a in unfinished(history, killed)]


def judge_stalls(history: History, killed: Collection[str], now: int, bound_s: float) -> list[Finding]:
    """A waiter must get a lock that is free."""
    alive = [attempt for attempt in history.attempts if attempt.process not in killed]
    return [
        Finding(
            "free and not had",
            f"for {stall.ns / SECOND:.1f} s\n    after {stall.before}\n    waiting: {stall.waiter}",
            (stall.before.id, stall.waiter.id),
        )
        for stall in stalls(history.holds, alive, min(now, history.horizon), int(bound_s * SECOND))
    ]


def _end(attempt: Attempt, until: int) -> int:
    """The end of its waiting; ``until`` for an attempt that still waits then."""
    at = attempt.grant.at if attempt.held else attempt.done_at
    return until if at is None else min(at, until)
