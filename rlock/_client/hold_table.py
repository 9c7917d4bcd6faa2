"""HoldTable: the holds of one client in one process, with their mutex, and the reports of how each one ended.

Each event of an acquire, and of its hold, is emitted once and in order. Ctrl-C can come between any two
lines. So a method marks an event as emitted before it emits it. The undo of the acquire or release emits an
event that was not marked.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

from ..clock import Clock
from ..errors import LeaseLostError, OptionsError, QuorumUnreachableError, UpgradeError
from ..events import Acquired, Event, NotAcquired, Released, emit, observed
from ..model import LeaseState
from ..procedures.contender import Contender, Grant
from ..procedures.port import Masters, UnderWay, WaitGenerator
from ..procedures.release import end
from ..rules.holds import Hold, OwnerKey, RenewalSchedule
from ..rules.keys import hold_name
from ..rules.lease import LeaseEvent
from ..rules.options import LockOptions
from ..rules.timing import valid_until
from .runtime import Parker, Runtime

HELD_OR_SUSPECT = (LeaseState.HELD, LeaseState.SUSPECT)


class HoldTable:
    """``on_change``: called with the mutex when the first hold came or the last one went."""

    def __init__(
        self, clock: Clock, runtime: Runtime, masters: Masters, on_change: Callable[[], object]
    ) -> None:
        self._on_change = on_change
        self.schedule = RenewalSchedule()
        self._by_owner: dict[tuple[OwnerKey, str], Hold] = {}
        self.by_name: dict[str, Hold] = {}
        self.clock = clock
        self.runtime = runtime
        self.under_way = UnderWay()
        self.closed = False
        self.closer: object = None  # the thread or task that closes the client now
        self.client: Callable[[], object] = lambda: self  # the client, or None after it was collected
        self.read_on: Callable[[Hold], object] = lambda _: None  # the watchdog's, as the next one
        self.on_empty: Callable[[], object] = lambda: None
        #: As all mutexes of a client: a handler or finalizer may enter it again (`Engine.interrupted`).
        self.mutex: Any = threading.RLock()
        self._masters = masters

    def __len__(self) -> int:
        return len(self._by_owner)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._by_owner.values()))

    def __contains__(self, hold: Hold) -> bool:
        return self.find(hold.owner_key, hold.options.hold_name) is hold

    def find(self, owner_key: OwnerKey, name: str) -> Hold | None:
        return self._by_owner.get((owner_key, name))

    def holder(self, name: str) -> str:
        """The owner in this process that holds a lock, for people; "": none."""
        for hold in self:
            if hold.name == name:
                owner, reads = hold.owner_key, ", a reader," if hold.options.shared else ""
                return owner.label.rpartition("/")[2] + (reads if owner.alive() else ", which has ended,")
        return ""

    def add(self, hold: Hold) -> None:
        """Add a new hold. The watchdog does not look at it unless it is scheduled."""
        name = hold.options.hold_name
        self._by_owner[hold.owner_key, name] = hold
        self.by_name[name] = hold
        if len(self._by_owner) == 1:
            self._on_change()

    def hear(self, hold: Hold, *, early: bool = False) -> float:
        """Read a hold's confirmation if its lease would be over, or always (``early``). Without the mutex.

        Returns the instant to check the lease for. Without the reading a confirmed one would seem lost.
        """
        lease, now, read_at = hold.lease, self.clock(), -math.inf
        # Not once closed: in a forked child, which is, another thread of its parent may have had the mutex.
        while lease.confirmation and not self.closed and (early or read_at < lease.valid_until <= now):
            early, read_at = False, now
            self._masters.read_arrived()
            now = self.clock()  # again: a process that is stopped in the read would believe in an old lease
        return now

    def state(self, hold: Hold) -> LeaseState:
        return hold.lease.state_at(self.hear(hold))

    def remaining(self, hold: Hold) -> float:
        return hold.lease.remaining(self.hear(hold, early=True))

    def again(self, key: OwnerKey, options: LockOptions) -> bool:
        """Acquire once more what the owner holds, if it does. Raises `LeaseLostError` after a loss."""
        if (hold := self.find(key, options.hold_name)) is None:
            return False
        if self.state(hold) is LeaseState.LOST:
            raise LeaseLostError(hold.name, hold.reason)
        # No call behind this line: Ctrl-C there would leave an acquire that nobody gives back.
        if hold.count < 1:
            return False  # a signal handler or a finalizer has released it since it was found
        hold.count += 1
        return True

    def beside(self, key: OwnerKey, options: LockOptions) -> Hold | None:
        """The writer of an owner that asks for the reader. Raises `UpgradeError` the other way round."""
        other = self.find(key, hold_name(options.name, not options.shared)) if self._by_owner else None
        if other is not None and self.state(other) is LeaseState.LOST:
            role = "writer" if options.shared else "reader"
            raise LeaseLostError(other.name, f"{other.reason} (the caller's {role}: release it first)")
        if other is not None and not options.shared:
            raise UpgradeError(options.name)
        return other

    def remove(self, hold: Hold) -> None:
        """Remove a hold that was released or given up. A second call changes nothing. With the mutex.

        A reader and the writer of its owner get a lease each.
        """
        self.forget(hold)
        if self.by_name.get(hold.options.hold_name) is hold:
            del self.by_name[hold.options.hold_name]
        self.schedule.remove(hold)
        if not self._by_owner:
            self._on_change()
            self.on_empty()
        if hold.writer is not None:
            hold.lease, hold.writer = copy(hold.lease), None
        reader = self.find(hold.owner_key, hold_name(hold.name, shared=True)) if self._by_owner else None
        if reader is not None and reader.lease is hold.lease:
            hold.reader = reader if hold.lease.state in HELD_OR_SUSPECT else None
            lease, ttl = copy(hold.lease), reader.options.lease.ttl
            # From now on each master may have either lease, until a quorum has confirmed the reader's.
            lease.ttl = min(hold.lease.ttl, ttl)
            lease.valid_until = min(hold.lease.valid_until, valid_until(self.clock(), ttl))
            reader.lease = lease  # last: behind Ctrl-C before it, the second call does all of this

    def forget(self, hold: Hold) -> None:
        """End the ownership at once, at any instant and without the mutex. `remove` does the rest."""
        if hold in self:
            self._by_owner.pop((hold.owner_key, hold.options.hold_name), None)

    def give_up(self, hold: Hold) -> None:
        """Drop a hold and release it, without waiting for the masters."""
        with self.mutex:
            self.remove(hold)
            # Otherwise a healing at the same time would put the key back.
            hold.lease.on(LeaseEvent.RELEASE)
        end(self._masters, hold)
        self.under_way.releasing.pop(hold.owner, None)
        self.read_on(hold)
        self.report_released(hold, self.clock(), confirmed=False)

    def report_acquired(self, hold: Hold, grant: Grant, contender: Contender) -> None:
        masters, queued = len(self._masters.context.masters), contender.told_queued
        waited, fair = self.clock() - contender.began_at, hold.options.fair
        event = Acquired(hold.name, hold.owner, fair, waited, grant.votes, masters, grant.handed, queued)
        try:
            contender.told_end = True
            emit(event)
        finally:
            _emit_pending(hold)

    def report_not_acquired(self, contender: Contender, error: BaseException | None = None) -> None:
        if observed() and not contender.told_end:
            fair, waited = contender.options.fair, self.clock() - contender.began_at
            event = NotAcquired(contender.name, fair, waited, _outcome(error), contender.told_queued)
            contender.told_end = True
            emit(event)

    def report_released(self, hold: Hold, began: float, *, confirmed: bool) -> None:
        """Emit the release of a hold, which began at ``began``, unless its end was reported."""
        _emit_pending(hold)
        if observed() and not hold.report.end_reported:
            held, took = began - hold.acquired_at, self.clock() - began
            event = Released(hold.name, hold.owner, held, took, confirmed)
            hold.report.end_reported = True
            emit(event)
        hold.report.end_reported = True


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "busy"
    if isinstance(error, QuorumUnreachableError):
        return "unreachable"
    return "error" if isinstance(error, OptionsError) else "interrupted"


def emit_in_order(hold: Hold, event: Event) -> None:
    """Emit an event of a hold, but not before its acquire: an observer may still be handling that."""
    pending = hold.report.pending_events
    if pending is None:
        emit(event)
        return
    pending.add(event)
    if hold.report.pending_events is None:  # the acquire was emitted meanwhile, without this event
        pending.emit()


def _emit_pending(hold: Hold) -> None:
    pending, hold.report.pending_events = hold.report.pending_events, None
    if pending is not None:
        pending.emit()


class LossSignal:
    """See `rlock.LossSignal`. ``check_s``: how often a waiter checks the leases, although nobody wakes it."""

    def __init__(self, table: HoldTable, holds: Sequence[Hold] = (), check_s: float = math.inf) -> None:
        self._table = table
        self._holds = holds
        self._check_s = check_s
        self._set = False
        #: No mutex guards it: a signal handler that asks `is_set` would wait for its own thread.
        self._waiting: list[Parker] = []

    def set(self) -> None:
        # First: a waiter that is not in the list yet sees it before it sleeps.
        self._set = True
        for parker in [*self._waiting]:
            with suppress(RuntimeError):  # another thread has woken it meanwhile, or its event loop is closed
                self._wake(parker)

    def _wake(self, parker: Parker) -> None:
        parker.wake()

    def is_set(self) -> bool:
        """Whether the hold was lost. Sends nothing."""
        if any(self._table.state(hold) is LeaseState.LOST for hold in self._holds):
            self.set()
        return self._set

    def _wait_gen(self, timeout: float | None) -> WaitGenerator[bool]:
        clock, parker = self._table.clock, self._table.runtime.parker()
        until = clock() + (math.inf if timeout is None else timeout)
        self._waiting.append(parker)
        try:
            while not self.is_set():
                now = clock()
                if now >= until:
                    return False
                # A waiter wakes at the end of the validity, also when the watchdog is late.
                held = (hold.lease for hold in self._holds if hold.lease.state in HELD_OR_SUSPECT)
                valid_for = min((lease.valid_until - now for lease in held), default=math.inf)
                yield from parker.park(min(until - now, self._check_s, max(valid_for, 0.001)))
            return True
        finally:
            self._waiting.remove(parker)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
