"""The checker: it reads a history and finds what the lock excludes. Pure functions, no clock, no files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rlock.rules.keys import READERS

from .history import Attempt, History

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A broken promise: the rule, and the attempts that show it."""

    check: str
    told: str
    #: Ids of the attempts. Their text may change as journals grow; the finding is reported once.
    about: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for the same finding of a later look."""
        return (self.check, *(self.about or (self.told,)))

    def __str__(self) -> str:
        return f"{self.check}: {self.told}"


class Eviction(NamedTuple):
    """An operator's removal: its owners go on until they notice, as documented, while others get in."""

    at: int
    lock: str
    #: With `READERS` among them it removed all readers that were there, seen or not, before ``over``.
    owners: Collection[str]
    over: int = 0


class Overlap(NamedTuple):
    """Two valid holds of one lock at once."""

    before: Attempt
    after: Attempt
    ns: int


def overlapping(
    items: Iterable[T],
    begin: Callable[[T], float],
    end: Callable[[T], float],
    shared: Callable[[T], bool] = lambda _: False,
) -> list[tuple[T, T]]:
    """Each item that begins while an earlier one lasts, behind the earlier one that ends last.

    An item that ends when it begins overlaps nothing, and a shared one no other shared one.
    """
    found: list[tuple[T, T]] = []
    last: dict[bool, T] = {}
    for item in sorted(items, key=begin):
        kind = shared(item)
        for other, earlier in last.items():
            if not (kind and other) and begin(item) < min(end(earlier), end(item)):
                found.append((earlier, item))
        if kind not in last or end(item) > end(last[kind]):
            last[kind] = item
    return found


def end_of(hold: Attempt, evictions: Iterable[Eviction], owners: Mapping[str, str]) -> int:
    """The end of a hold, which its eviction may have been. ``owners``: of all holds, by their ids."""
    # A reader within a writer is evicted with it.
    own = {hold.grant.owner, owners.get(hold.within)}
    evicted = [
        e.at
        for e in evictions
        if e.lock == hold.lock
        if own.intersection(e.owners) or (hold.shared and READERS in e.owners and hold.grant.at < e.over)
    ]
    return min([hold.valid_to, *evicted])


def overlaps(holds: Iterable[Attempt], evictions: Iterable[Eviction] = ()) -> list[Overlap]:
    """Each hold that began while one of its lock was valid that excludes it."""
    holds, evictions = list(holds), list(evictions)
    owners = {hold.id: hold.grant.owner for hold in holds}

    def end(hold: Attempt) -> int:
        return end_of(hold, evictions, owners)

    return [
        Overlap(a, b, min(end(a), end(b)) - b.grant.at)
        for held in by_lock(holds).values()
        for a, b in overlapping(held, lambda hold: hold.grant.at, end, lambda hold: hold.shared)
        if b.within != a.id
    ]


def falling_tokens(holds: Iterable[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Pairs of which the second, no reader, was sent after the return of the first, and has no higher token.

    A reader may have that of the last writer, and after a loss of memory an older one.
    """
    found = []
    for held in by_lock(holds).values():
        highest: Attempt | None = None
        returned = iter(held)
        following = next(returned, None)
        for hold in sorted(held, key=lambda hold: hold.grant.sent_after):
            while following is not None and following.grant.at < hold.grant.sent_after:
                if highest is None or following.grant.token > highest.grant.token:
                    highest = following
                following = next(returned, None)
            if highest is not None and not hold.shared and highest.grant.token >= hold.grant.token:
                found.append((highest, hold))
    return found


def shared_tokens(holds: Iterable[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Two exclusive holds of one lock with one token."""
    found = []
    for held in by_lock(holds).values():
        seen: dict[int, Attempt] = {}
        for hold in (hold for hold in held if not hold.shared):
            first = seen.setdefault(hold.grant.token, hold)
            if first is not hold:
                found.append((first, hold))
    return found


def wrong_nesting(holds: Iterable[Attempt]) -> list[Attempt]:
    """Holds without a token, or whose nested acquires had another token or a wrong hold count."""
    return [
        hold
        for hold in holds
        if hold.grant.token <= 0
        or hold.nested != [(hold.grant.token, 2 + i) for i in range(len(hold.nested))]
    ]


def judge_safety(history: History, evictions: Iterable[Eviction] = ()) -> list[Finding]:
    """All violations that no fault excuses."""
    holds = history.holds
    found = [
        Finding(
            "overlap",
            f"two valid leases of {o.after.lock!r} for {o.ns / 1e6:.3f} ms\n    {o.before}\n    {o.after}",
            (o.before.id, o.after.id),
        )
        for o in overlaps(holds, evictions)
    ]
    for check, pairs in (("token falls", falling_tokens(holds)), ("token shared", shared_tokens(holds))):
        for a, b in pairs:
            told = f"{a.grant.token} -> {b.grant.token} of {b.lock!r}\n    {a}\n    {b}"
            found.append(Finding(check, told, (a.id, b.id)))
    for hold in wrong_nesting(holds):
        found.append(Finding("nesting", f"{hold.nested} in\n    {hold}", (hold.id,)))
    return found


def by_lock(holds: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """The holds of each lock, in the order of their grants."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    for hold in sorted(holds, key=lambda hold: hold.grant.at):
        found[hold.lock].append(hold)
    return found
