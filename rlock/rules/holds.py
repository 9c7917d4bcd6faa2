"""The lease table: what this process holds, by owner and name.

Not thread-safe: the driver serialises the calls. Time comes in as a parameter.
"""

from __future__ import annotations

import enum
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from ..model import LeaseState
from .lease import Lease
from .options import LockOptions
from .timing import renew_period, retry_period


class OwnerKey:
    """Identity of one thread (or task): a fresh object each, never a thread ident, which is reused.

    The only strong reference lies in the thread's own `threading.local`. When the thread ends, the
    object goes, and the weak references of its holds tell the watchdog.
    """

    __slots__ = ("__weakref__", "label", "serial")
    _serials = itertools.count(1)

    def __init__(self, label: str) -> None:
        # Not id(self): the next thread's object may lie where a dead thread's lay.
        self.serial = next(self._serials)
        #: `<client>` of this owner's tokens.
        self.label = label


class Signal(Protocol):
    """The part of ``threading.Event`` that a hold needs."""

    def set(self) -> None:
        """Tell those who wait."""


class Due(enum.Enum):
    """What the watchdog waits for with a hold."""

    RENEW = "renew"  # the next renewal of a healthy lease
    RETRY = "retry"  # a renewal failed
    END = "end"  # nothing more to try: the end of the validity


class Hold:
    """One owner's unreleased acquires of one lock, and the lease behind them."""

    __slots__ = (
        "acquired_at",
        "count",
        "due",
        "key",
        "lease",
        "name",
        "options",
        "owner",
        "owner_key",
        "renew_at",
        "reported",
        "signal",
        "stopped",
    )

    def __init__(
        self,
        key: OwnerKey,
        options: LockOptions,
        owner: str,
        sent_at: float,
    ) -> None:
        self.key = (key.serial, options.name)
        self.owner_key = weakref.ref(key)
        self.name = options.name
        self.options = options
        #: `<client>:<uuid>`, what stands on the masters.
        self.owner = owner
        self.lease = Lease(options.lease.ttl, sent_at)
        #: Unreleased acquires. The masters follow with the next renewal.
        self.count = 1
        self.acquired_at = sent_at
        #: When the watchdog has to look at it next, and what for.
        self.due = Due.RENEW
        self.renew_at = 0.0
        self.schedule(Due.RENEW if options.renew else Due.END, sent_at)
        #: What the driver sets when the hold is lost; made when somebody asks for it.
        self.signal: Signal | None = None
        #: Why it is renewed no more.
        self.stopped = ""
        #: Whether its loss was told to `on_lost`.
        self.reported = False

    @property
    def state(self) -> LeaseState:
        """As last seen; ``lease.look(now)`` is the truth."""
        return self.lease.state

    def renewable(self, now: float) -> str | None:
        """None if it is to be renewed; else why not."""
        options = self.options
        if not options.renew:
            return "it has a fixed lease (renew=False)"
        if self.owner_key() is None:
            # Redisson renews the lock of a dead thread for ever and so blocks the fleet (its issue 6198).
            return "the thread that held it has ended without releasing it"
        if options.max_hold is not None and now - self.acquired_at >= options.max_hold:
            return f"it was held for max_hold={options.max_hold:g} s"
        return None

    def schedule(self, due: Due, sent_at: float) -> None:
        """When to look again, after a round that was sent at ``sent_at``."""
        ttl = self.lease.ttl
        retry_at = sent_at + retry_period(ttl)
        if due is Due.RETRY and retry_at >= self.lease.valid_until:
            due = Due.END
        self.due = due
        if due is Due.RENEW:
            self.renew_at = sent_at + renew_period(ttl)
        elif due is Due.RETRY:
            self.renew_at = retry_at
        else:
            self.renew_at = self.lease.valid_until


class Holds:
    """All holds of one process for one client."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, str], Hold] = {}
        self._by_name: dict[str, Hold] = {}
        # One queue for each length of lease and each thing waited for: its entries become due in the
        # order in which they came, so that neither an acquire nor the watchdog ever searches.
        self._due: dict[tuple[float, Due], OrderedDict[int, Hold]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._by_key.values()))

    def find(self, key: OwnerKey, name: str) -> Hold | None:
        """The hold of this owner on this lock."""
        return self._by_key.get((key.serial, name))

    def taken(self, name: str, now: float) -> bool:
        """Whether some owner of this process holds the lock with validity left."""
        hold = self._by_name.get(name)
        return hold is not None and hold.lease.remaining(now) > 0.0

    def add(self, hold: Hold) -> None:
        """Take a new hold in."""
        self._by_key[hold.key] = hold
        self._by_name[hold.name] = hold
        self._queue(hold)

    def remove(self, hold: Hold) -> None:
        """Drop a hold that was released or given up. Twice is once."""
        if self._by_key.get(hold.key) is hold:
            del self._by_key[hold.key]
        if self._by_name.get(hold.name) is hold:
            del self._by_name[hold.name]
        self.unwatch(hold)

    def unwatch(self, hold: Hold) -> None:
        """Look at it no more; it stays until its owner releases it."""
        queue = self._due.get((hold.lease.ttl, hold.due))
        if queue is not None:
            queue.pop(id(hold), None)

    def _queue(self, hold: Hold) -> None:
        queue = self._due.get((hold.lease.ttl, hold.due))
        if queue is None:
            queue = self._due[hold.lease.ttl, hold.due] = OrderedDict()
        queue[id(hold)] = hold

    def requeue(self, hold: Hold) -> None:
        """Put it back at its new time, unless it was released in the meantime."""
        if self._by_key.get(hold.key) is hold:
            self._queue(hold)

    @property
    def watched(self) -> bool:
        """Whether anything is waiting for the watchdog."""
        return any(self._due.values())

    def next_due(self) -> float | None:
        """When the watchdog has to look next."""
        firsts = [next(iter(queue.values())).renew_at for queue in self._due.values() if queue]
        return min(firsts, default=None)

    def take_due(self, now: float, slack: float = 0.0) -> list[Hold]:
        """Those that are due, taken out of their queues.

        Renewals up to ``slack`` seconds ahead come along: many locks then share one round trip.
        """
        due: list[Hold] = []
        for key, queue in list(self._due.items()):
            until = now if key[1] is Due.END else now + slack
            while queue:
                first = next(iter(queue.values()))
                if first.renew_at > until:
                    break
                queue.popitem(last=False)
                due.append(first)
            if not queue and len(self._due) > 8:
                # A client with a ttl for each lock must not collect empty queues for ever.
                del self._due[key]
        return due
