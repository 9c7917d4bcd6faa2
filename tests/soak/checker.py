"""The checker: what the journals of a run prove, and what they refute. Pure functions, no clock, no files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import NamedTuple

from .journal import SECOND, Attempt, Records, stamp


class Eviction(NamedTuple):
    """An operator's removal: these owners work on until they notice, as documented, and others get in."""

    at: int
    name: str
    owners: Collection[str]


@dataclass(frozen=True)
class Finding:
    """Something that must not be: the check that failed, and the lines of the journals that show it."""

    check: str
    told: str
    #: The attempts that it is about: told once, whatever their journals say later.
    about: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it another finding."""
        return (self.check, *(self.about or (self.told,)))

    def __str__(self) -> str:
        return f"{self.check}: {self.told}"


class Overlap(NamedTuple):
    """Two valid leases of one lock at once."""

    before: Attempt
    after: Attempt
    ns: int


def valid_to(hold: Attempt, evictions: Iterable[Eviction] = ()) -> int:
    """Until when a hold must have been alone."""
    ends = [e.at for e in evictions if e.name == hold.name and hold.owner in e.owners]
    return min([hold.valid_to, *ends])


def overlaps(holds: Iterable[Attempt], evictions: Iterable[Eviction] = ()) -> list[Overlap]:
    """Each hold that began while another one of its lock was valid."""
    evictions = list(evictions)
    found = []
    for held in _by_name(holds).values():
        last: tuple[int, Attempt] | None = None  # of those so far, the one that is valid for longest
        for hold in held:
            end, began = valid_to(hold, evictions), _got(hold)
            # One that found its lease over when it came back, or evicted, held nothing.
            if last is not None and began < min(last[0], end):
                found.append(Overlap(last[1], hold, min(last[0], end) - began))
            if last is None or end > last[0]:
                last = (end, hold)
    return found


def falling_tokens(holds: Iterable[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Pairs of which the later one was asked for after the earlier was granted, and has no higher token."""
    found = []
    for held in _by_name(holds).values():
        pending = sorted(held, key=lambda hold: hold.granted_after)
        highest: Attempt | None = None
        at = 0
        for hold in pending:
            while at < len(held) and _got(held[at]) < hold.granted_after:
                if highest is None or held[at].token > highest.token:
                    highest = held[at]
                at += 1
            if highest is not None and highest.token >= hold.token:
                found.append((highest, hold))
    return found


def shared_tokens(holds: Iterable[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Two holds of one lock with one token."""
    found = []
    for held in _by_name(holds).values():
        seen: dict[int, Attempt] = {}
        for hold in held:
            if hold.token in seen:
                found.append((seen[hold.token], hold))
            seen.setdefault(hold.token, hold)
    return found


def wrong_nesting(holds: Iterable[Attempt]) -> list[Attempt]:
    """Holds whose nested acquires had another token, or another depth than they must."""
    return [
        hold
        for hold in holds
        if any(token != hold.token or depth != 2 for token, depth in hold.nested) or hold.token <= 0
    ]


def late(attempts: Iterable[Attempt], quiet_at: int, until: int, bound: int) -> list[tuple[Attempt, int]]:
    """Those who waited for longer than the bound after the faults had ended, and for how long."""
    found = []
    for attempt in attempts:
        if attempt.timeout >= 0:
            continue
        ends = [at for at in (attempt.got_at, attempt.done_at) if at is not None]
        waited = min([*ends, until]) - max(attempt.asked_at, quiet_at)
        if waited > bound:
            found.append((attempt, waited))
    return found


def unfinished(records: Records, killed: Collection[str]) -> list[Attempt]:
    """Attempts that never came to an end, of processes that ended by themselves."""
    return [
        attempt
        for attempt in records.attempts
        if attempt.done_at is None and attempt.worker in records.ended and attempt.worker not in killed
    ]


def longest_gaps(holds: Iterable[Attempt]) -> dict[str, float]:
    """For each lock the longest time, in seconds, in which nobody got it."""
    gaps = {}
    for name, held in sorted(_by_name(holds).items()):
        gaps[name] = max((_got(b) - _got(a) for a, b in pairwise(held)), default=0) / SECOND
    return gaps


class Stall(NamedTuple):
    """A lock that was free, and that one who waited for it did not get for so long."""

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
            waiting[attempt.name].append(attempt)
    for name, held in _by_name(holds).items():
        for before, after in zip_longest(held, held[1:]):
            free_at = before.valid_to if before.left_at is None else before.left_at
            taken_at = now if after is None else _got(after)
            if taken_at - free_at <= bound:
                continue
            for waiter in waiting[name]:
                ends = [at for at in (waiter.got_at, waiter.done_at) if at is not None]
                waited = min([*ends, taken_at]) - max(free_at, waiter.asked_at)
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
        if hold.owner not in owners
        and any(not b.valid and b.at < a.valid_until for a, b in pairwise(hold.looks) if a.valid)
    ]


def judge_safety(records: Records, evictions: Iterable[Eviction] = ()) -> list[Finding]:
    """What no fault excuses, at any moment of a run."""
    holds = records.holds
    found = [
        Finding(
            "overlap",
            f"two valid leases of {o.after.name!r} for {o.ns / 1e6:.3f} ms\n    {o.before}\n    {o.after}",
            (o.before.id, o.after.id),
        )
        for o in overlaps(holds, evictions)
    ]
    for check, pairs in (("token falls", falling_tokens(holds)), ("token shared", shared_tokens(holds))):
        for a, b in pairs:
            told = f"{a.token} -> {b.token} of {b.name!r}\n    {a}\n    {b}"
            found.append(Finding(check, told, (a.id, b.id)))
    for hold in wrong_nesting(holds):
        found.append(Finding("nesting", f"{hold.nested} in\n    {hold}", (hold.id,)))
    return found


def judge_progress(
    records: Records, killed: Collection[str], quiet_at: int, until: int, bound_s: float
) -> list[Finding]:
    """What must come to an end once the faults have ended."""
    bound = int(bound_s * SECOND)
    alive = [attempt for attempt in records.attempts if attempt.worker not in killed]
    return [
        Finding(
            "progress",
            f"waited {waited / SECOND:.1f} s after {stamp(quiet_at)}\n    {attempt}",
            (attempt.id,),
        )
        for attempt, waited in late(alive, quiet_at, until, bound)
    ]


def judge_ends(records: Records, killed: Collection[str]) -> list[Finding]:
    """What processes that ended by themselves have begun, they have brought to an end."""
    return [Finding("unfinished", f"\n    {a}", (a.id,)) for a in unfinished(records, killed)]


def judge_stalls(records: Records, killed: Collection[str], now: int, bound_s: float) -> list[Finding]:
    """A lock that is free must be had by one who waits."""
    alive = [attempt for attempt in records.attempts if attempt.worker not in killed]
    return [
        Finding(
            "free and not had",
            f"for {stall.ns / SECOND:.1f} s\n    after {stall.before}\n    waiting: {stall.waiter}",
            (stall.before.id, stall.waiter.id),
        )
        for stall in stalls(records.holds, alive, min(now, records.horizon), int(bound_s * SECOND))
    ]


def _by_name(holds: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = defaultdict(list)
    for hold in sorted(holds, key=_got):
        found[hold.name].append(hold)
    return found


def _got(hold: Attempt) -> int:
    if hold.got_at is None:
        raise ValueError("not a hold")
    return hold.got_at
