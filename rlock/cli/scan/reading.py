"""How a lock reads for people: its holder, its votes, what is to be sorted by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...model import LockStatus
from ...rules.keys import since
from ..output import counted, named, printable, seconds
from .snapshot import GroupHealth, Snapshot

#: What locks can be sorted by.
ORDERS: dict[str, Callable[[LockStatus], Any]] = {
    "name": lambda lock: lock.name,
    "waiters": lambda lock: (-lock.queue_length, lock.name),
    "since": lambda lock: (lock.since is None, lock.since or 0.0, lock.name),
    "lease": lambda lock: (lock.remaining is None, lock.remaining or 0.0, lock.name),
}


def ordered(locks: Sequence[LockStatus], order: str) -> list[LockStatus]:
    """The locks in one of the orders."""
    return sorted(locks, key=ORDERS[order])


def seen(lock: LockStatus) -> tuple[str | None, int]:
    """Who was seen to hold it on most masters, and on how many; with fewer than a quorum it has no holder."""
    holders = Counter(view.holder for view in lock.masters if view.holder is not None)
    return next(iter(holders.most_common(1)), (None, 0))


def votes(lock: LockStatus) -> str:
    """How many masters say so, of how many."""
    return f"{seen(lock)[1]}/{len(lock.masters)}"


def label(owner: str) -> str:
    """An owner token without what tells one acquisition from the next: host/pid/thread."""
    client = owner.rpartition(":")[0]
    return printable(client) if client and since(owner) is not None else named(owner)


def led(group: GroupHealth, now: float) -> str:
    """Which server leads a group, for how long, and how many replicas it has."""
    since = "" if group.since is None else f" for {seconds(max(0.0, now - group.since))}"
    told = f"{group.leader} leads{since}, {group.acknowledged} of {group.replicas} replicas acknowledge"
    if group.online != group.acknowledged:
        told += f", {group.online} online"
    return told if group.votes else f"{told}: no vote without exactly all of them"


def unreachable(snapshot: Snapshot) -> str | None:
    """What is wrong if fewer than a quorum answered, with the fault of each master; None: enough did."""
    if snapshot.answering >= snapshot.quorum:
        return None
    faults = "; ".join(f"{each.master}: {each.fault}" for each in snapshot.masters if each.fault is not None)
    count = f"{snapshot.answering} of {counted(len(snapshot.masters), 'master')}"
    return f"too few answers to say who holds a lock ({count}, {snapshot.quorum} needed): {faults}"


def unlisted(snapshot: Snapshot) -> str | None:
    """Why no master tells which locks there are; None: one does."""
    told = [each for each in snapshot.masters if each.fault is None]
    if not told or any(each.unlisted is None for each in told):
        return None
    return (
        f"{told[0].master} does not tell which locks there are: {told[0].unlisted} (a user who may needs "
        f"+scan +hlen +hkeys and ~*); `rlock status NAME` works without"
    )


def nothing(snapshot: Snapshot) -> str:
    """The line in place of a table without locks."""
    # "No lock is held" would be read as "nothing to lose", and answered with `rlock init`.
    if snapshot.answering < snapshot.quorum:
        return "which locks are held is unknown"
    if (why := unlisted(snapshot)) is not None:
        return why
    hidden = any(each.hidden for each in snapshot.masters)
    among = "this user may read" if hidden else "were found so far" if snapshot.more else ""
    return "no lock is held or waited for" + (f" among those that {among}" if among else "")
