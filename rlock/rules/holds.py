"""The lease table: what this process holds, by owner and name.

Not thread-safe: the driver serialises the calls. Time comes in as a parameter.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from ..events import News
from .lease import EXPIRED, Lease, LeaseEvent
from .options import LockOptions
from .quorum import Ballot
from .timing import FILL_UP_S, renew_period, retry_period


class ThreadLiveness:
    """Lives as long as its thread: only the thread's own `threading.local` refers to it.

    No frame may: the traceback of an exception that somebody kept would keep it alive, and with it the
    renewal of a dead thread's locks. ``runner``: the greenlet, if that is what a thread is here; eventlet
    keeps what is local to it for as long as anybody refers to it, dead or not.
    """

    __slots__ = ("__weakref__", "runner")

    def __init__(self, runner: Callable[[], Any] | None = None) -> None:
        self.runner = runner

    @property
    def beats(self) -> bool:
        """Whether its greenlet has not ended."""
        if self.runner is None:
            return True
        greenlet = self.runner()
        return greenlet is not None and not greenlet.dead


class OwnerKey:
    """Identity of one thread or task: a fresh one each, never a thread ident, which is reused.

    ``alive`` says whether its thread or task still runs. A `ThreadLiveness` may stand in its place.
    """

    __slots__ = ("_alive", "label", "serial")
    _serials = itertools.count(1)

    def __init__(self, label: str, alive: ThreadLiveness | Callable[[], bool]) -> None:
        self.serial = next(self._serials)
        self._alive = _beating(alive) if isinstance(alive, ThreadLiveness) else alive
        #: `<client>` of this owner's tokens.
        self.label = label

    @property
    def alive(self) -> bool:
        """Whether its thread or task still runs."""
        return self._alive()


def _beating(pulse: ThreadLiveness) -> Callable[[], bool]:
    there = weakref.ref(pulse)
    return lambda: (pulse := there()) is not None and pulse.beats


class Signal(Protocol):
    """The part of ``threading.Event`` that a hold needs."""

    def set(self) -> None:
        """Tell those who wait."""


class Due(enum.Enum):
    """What the watchdog waits for with a hold."""

    FILL_UP = "fill up"  # the first renewal: on masters, too, that the acquire did not win
    RENEW = "renew"  # the next renewal of a healthy lease
    RETRY = "retry"  # a renewal failed
    END = "end"  # nothing more to try: the end of the validity


#: The first thing that every hold waits for: what a member of an enum costs to look up shows there.
_FILL_UP = Due.FILL_UP
#: Of a hold that no master has refused: one for all of them.
_NOWHERE: Mapping[int, float] = {}


class Hold:
    """One owner's unreleased acquires of one lock, and the lease behind them."""

    __slots__ = (
        "acquired_at",
        "count",
        "due",
        "early",
        "entry",
        "hops",
        "key",
        "lease",
        "name",
        "options",
        "owner",
        "owner_key",
        "queue",
        "refused",
        "renew_at",
        "renewed_by",
        "reported",
        "signal",
        "stopped",
        "task",
        "token",
        "waiter",
    )

    def __init__(
        self,
        key: OwnerKey,
        options: LockOptions,
        owner: str,
        sent_at: float,
        *,
        waiter: str = "",
        hops: int = 0,
        token: int = 0,
    ) -> None:
        self.key = (key.serial, options.name)
        self.owner_key = key
        self.name = options.name
        self.options = options
        #: `<client>:<uuid>`, what stands on the masters.
        self.owner = owner
        self.lease = Lease(options.lease.ttl, sent_at)
        #: Unreleased acquires. The masters follow with the next renewal.
        self.count = 1
        self.acquired_at = sent_at
        #: Its place in the watchdog's heap; -1: none.
        self.entry = -1
        #: The queue of renewals in which it stands.
        self.queue: OrderedDict[int, Hold] | None = None
        #: When the watchdog has to look at it next, and what for.
        self.due = _FILL_UP
        self.renew_at = 0.0
        self.schedule(_FILL_UP if options.renew else Due.END, sent_at)
        #: The last round of renewal, and which of its locks this is: answers may come late.
        self.renewed_by: tuple[Ballot, int] | None = None
        #: Masters that refused it alone, and until when their refusal is taken for certain.
        self.refused: Mapping[int, float] = _NOWHERE
        #: A place in the queue that goes with the release.
        self.waiter = waiter
        #: The fencing token.
        self.token = token
        #: How often in a row the lock went from thread to thread of this process.
        self.hops = hops
        #: What the driver sets when the hold is lost; made when somebody asks for it.
        self.signal: Signal | None = None
        #: Why it is renewed no more.
        self.stopped: Stop | None = None
        #: In which task of its thread it was acquired, if that runs tasks: they are one owner.
        self.task: int | None = None
        #: Whether its end was told: its release, or its loss, that to `on_lost`, too.
        self.reported = False
        #: What came up before its acquire was told; None: that was.
        self.early: News | None = None

    @property
    def reason(self) -> str:
        """Why it was lost, with why it was not renewed if that was on purpose."""
        reason = self.lease.reason or EXPIRED
        return f"{reason} ({self.stopped.reason})" if self.stopped else reason

    @property
    def cause(self) -> str:
        """The same in one of a few words: why it is renewed no more, or what ended the lease."""
        if self.stopped:
            return self.stopped.cause
        ended_by = self.lease.ended_by
        return FIXED if ended_by is LeaseEvent.EXPIRED and not self.options.renew else ended_by.value

    def renewable(self, now: float) -> Stop | None:
        """None if it is to be renewed; else why not."""
        options = self.options
        if not options.renew:
            return Stop(FIXED, "it has a fixed lease (renew=False)")
        if not self.owner_key.alive:
            # Redisson renews the lock of a dead thread for ever and so blocks the fleet (its issue 6198).
            return Stop("dead owner", "the thread or task that held it has ended without releasing it")
        if options.max_hold is not None and now - self.acquired_at >= options.max_hold:
            return Stop("max_hold", f"it was held for max_hold={options.max_hold:g} s")
        return None

    def schedule(self, due: Due, sent_at: float) -> None:
        """When to look again, after a round that was sent at ``sent_at``."""
        self.due, ttl = due, self.lease.ttl
        if due is _FILL_UP:
            self.renew_at = sent_at + min(FILL_UP_S, renew_period(ttl))
        elif due is Due.RENEW:
            self.renew_at = sent_at + renew_period(ttl)
        elif due is Due.RETRY and sent_at + retry_period(ttl) < self.lease.valid_until:
            self.renew_at = sent_at + retry_period(ttl)
        else:
            self.due = Due.END
            self.renew_at = self.lease.valid_until


#: The cause of a loss that was agreed on.
FIXED = "fixed lease"


class Stop(NamedTuple):
    """Why a hold is renewed no more: for a program, and for a person."""

    cause: str
    reason: str


class Holds:
    """All holds of one process for one client."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, str], Hold] = {}
        self._by_name: dict[str, Hold] = {}
        # Renewals of one kind and length of lease become due in the order in which they were sent: a
        # queue, so that neither an acquire nor the watchdog ever searches, and a release takes its entry out.
        self._renewals: dict[tuple[str, float], OrderedDict[int, Hold]] = {}
        # Retries and ends are few and in no order. Entries of holds that moved on are skipped.
        self._others: list[tuple[float, int, Hold]] = []
        self._entries = itertools.count()

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._by_key.values()))

    def __contains__(self, hold: Hold) -> bool:
        return self._by_key.get(hold.key) is hold

    def find(self, key: OwnerKey, name: str) -> Hold | None:
        """The hold of this owner on this lock."""
        return self._by_key.get((key.serial, name))

    def holder(self, name: str) -> str:
        """Which owner of this process holds a lock, for people."""
        for hold in self:
            if hold.name == name:
                owner = hold.owner_key
                return owner.label.rpartition("/")[2] + ("" if owner.alive else ", which has ended,")
        return ""

    def taken(self, name: str, now: float) -> bool:
        """Whether some owner of this process holds the lock with validity left."""
        hold = self._by_name.get(name)
        return hold is not None and hold.lease.remaining(now) > 0.0

    def add(self, hold: Hold) -> None:
        """Take a new hold in."""
        self._by_key[hold.key] = hold
        self._by_name[hold.name] = hold
        self.watch(hold)

    def remove(self, hold: Hold) -> None:
        """Drop a hold that was released or given up. Twice is once."""
        if self._by_key.get(hold.key) is hold:
            del self._by_key[hold.key]
        if self._by_name.get(hold.name) is hold:
            del self._by_name[hold.name]
        self.unwatch(hold)

    def watch(self, hold: Hold) -> None:
        """Look at it when it says, unless it was released in the meantime."""
        if self._by_key.get(hold.key) is not hold:
            return
        self.unwatch(hold)
        due = hold.due
        if due is _FILL_UP or due is Due.RENEW:
            kind = (due.value, hold.lease.ttl)
            queue = self._renewals.get(kind)
            if queue is None:
                queue = self._renewals[kind] = OrderedDict()
            queue[id(hold)] = hold
            hold.queue = queue
        else:
            hold.entry = next(self._entries)
            heapq.heappush(self._others, (hold.renew_at, hold.entry, hold))
            if len(self._others) > 2 * len(self._by_key) + 64:
                # Nobody pops the entries of fixed leases that were released: they would pile up.
                self._others = [other for other in self._others if other[1] == other[2].entry]
                heapq.heapify(self._others)

    def unwatch(self, hold: Hold) -> None:
        """Look at it no more; it stays until its owner releases it."""
        hold.entry = -1
        if hold.queue is not None:
            hold.queue.pop(id(hold), None)
            hold.queue = None

    @property
    def watched(self) -> bool:
        """Whether anything is waiting for the watchdog."""
        return self.next_due() is not None

    def next_due(self) -> float | None:
        """When the watchdog has to look next."""
        while self._others and self._others[0][1] != self._others[0][2].entry:
            heapq.heappop(self._others)
        firsts = [next(iter(queue.values())).renew_at for queue in self._renewals.values() if queue]
        if self._others:
            firsts.append(self._others[0][0])
        return min(firsts, default=None)

    def take_due(self, now: float, slack: float = 0.0) -> list[Hold]:
        """Those that are due, taken out of their queues.

        Renewals up to ``slack`` seconds ahead come along: many locks then share one round trip.
        """
        due: list[Hold] = []
        for (kind, ttl), queue in list(self._renewals.items()):
            # A part of the period at the most: a short lease would be renewed without a pause.
            until = now + min(slack, renew_period(ttl) / 4)
            while queue:
                first = next(iter(queue.values()))
                if first.renew_at > until:
                    break
                queue.popitem(last=False)
                first.queue = None
                due.append(first)
            if not queue and len(self._renewals) > 8:
                # A client with a ttl for each lock must not collect empty queues for ever.
                del self._renewals[kind, ttl]
        while self._others and self._others[0][0] <= now:
            _, entry, hold = heapq.heappop(self._others)
            if entry == hold.entry:
                due.append(hold)
        return due
