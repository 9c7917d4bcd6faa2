"""Fair order: no waiter gets the lock before another one that had its place before the first one asked.

What docs/how-it-works.md promises, and what is judged here:

- Deaths, evictions and Ctrl-C of other processes change nothing for those who wait.
- A process that did not run may lose its turn. It returns to its old place, so this excuses only overtaking
  of its own waiters, until `SETTLE_S` after it runs again.
- Masters that lost their queues, or are out of reach, change nothing if they are a minority. If more than a
  minority had a fault within `SETTLE_S`, the order may be lost.

Only for runs in which all users are fair. Pure functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from rlock.rules.quorum import quorum

from .checker import Finding, by_lock
from .history import History
from .journal import SECOND

#: Waiters poll one master after another, every 1.44 s at most, and put themselves back (5 masters).
SETTLE_S = 8.0


class Harm(NamedTuple):
    """A fault of masters or network, from its first harm until it was mended."""

    begin: int
    end: int
    masters: int  # how many may have felt it


class Order(NamedTuple):
    """The verdict on fair order."""

    findings: list[Finding]
    judged: int  # waits that no fault excuses
    overtaken: int  # waiters that were overtaken, with an excuse


def judge_order(history: History, harms: Iterable[Harm], masters: int) -> Order:
    """Judge all waits."""
    ill = _periods_of_a_majority(harms, masters)
    own: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for process, begin, end in history.stalls:
        own[process].append((begin, end + int(SETTLE_S * SECOND)))
    findings, judged, overtaken = [], 0, 0
    for held in by_lock(history.holds).values():
        instants = [hold.grant.at for hold in held]
        for hold in held:
            if hold.arrived_at is None or hold.shared:
                continue  # readers that wait go together, and may pass writers
            first, last = bisect_right(instants, hold.arrived_at), bisect_right(instants, hold.grant.at - 1)
            # Tokens rise from grant to grant, and a stopped process may return late from its acquire.
            passed = [
                other
                for other in held[first:last]
                if not other.shared
                if other.asked_at > hold.arrived_at and other.grant.token < hold.grant.token
            ]
            wait = (hold.arrived_at, hold.grant.at)
            excused = _meets(wait, ill) or _meets(wait, own[hold.process])
            judged += not excused
            overtaken += bool(excused and passed)
            if passed and not excused:
                told = f"{len(passed)} later ones were first\n    {hold}\n    {passed[0]}"
                findings.append(Finding("overtaken", told, (hold.id, passed[0].id)))
    return Order(findings, judged, overtaken)


def _periods_of_a_majority(harms: Iterable[Harm], masters: int) -> list[tuple[int, int]]:
    """When more than a minority felt a fault or had not settled behind it."""
    settle = int(SETTLE_S * SECOND)
    changes = sorted(
        change
        for harm in harms
        for change in ((harm.begin, harm.masters), (harm.end + settle, -harm.masters))
    )
    minority = masters - quorum(masters)
    found, count, since = [], 0, 0
    for at, more in changes:
        before, count = count, count + more
        if before <= minority < count:
            since = at
        elif count <= minority < before:
            found.append((since, at))
    return found


def _meets(wait: tuple[int, int], periods: Iterable[tuple[int, int]]) -> bool:
    return any(begin <= wait[1] and wait[0] <= end for begin, end in periods)
