"""Watchdog: the thread or task that renews all locks of a client, and reports losses.

It runs while the client holds a lock. Each check of a lease computes a loss from the clock
(`rules/lease.py`); the watchdog only reports it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress

from .. import events
from ..errors import LeaseLostError, RLockError
from ..events import emit, log
from ..procedures.port import Masters, WaitGenerator
from ..procedures.release import end
from ..procedures.renew import RenewalOutcome, heal, renew
from ..rules.holds import Hold
from ..rules.keys import hold_name
from ..rules.lease import HELD, LOST, SUSPECT, LeaseEvent
from ..rules.timing import FILL_UP_S, LINGER_S, RENEW_SLACK_S, RENEW_STRAGGLERS_S, renew_period
from .hold_table import HoldTable, emit_in_order

OnLost = Callable[[LeaseLostError], object]

AT_CLOSE = "its client was closed"

DISOWNED = (
    "a quorum of masters answered that it holds the lock no more "
    "(an operator evicted it, or another owner has it after an expiry)"
)


class Watchdog(ABC):
    def __init__(self, holds: HoldTable, masters: Masters) -> None:
        self._holds, holds.read_on, holds.on_empty = holds, self.read_on, self.rest
        self._masters = masters
        self._schedule = holds.schedule
        self._mutex = holds.mutex
        self._clock = holds.clock
        self._parker = holds.runtime.parker()
        self._needed_until = -math.inf
        self._wake_at = math.inf
        self.stopped = False

    @abstractmethod
    def _start(self) -> None:
        """Start the thread or task unless it runs. Raises RuntimeError on failure. With the mutex."""

    def _ended(self) -> None:  # noqa: B027
        """The thread or task ends, because nothing is left to renew. With the mutex."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None:
        """Call ``on_lost`` where it cannot block or end the watchdog."""

    def ensure_running(self) -> None:
        """Start before the first write of an acquire. Raises RuntimeError on failure. With the mutex.

        Otherwise the lock could be granted, and then run out in the middle of the work without a watchdog.
        """
        self._needed_until = self._clock() + LINGER_S
        if not self.stopped:
            self._start()

    def watch(self, hold: Hold) -> None:
        """Renew a new hold from now on, or only report its loss. With the mutex."""
        self.ensure_running()
        if hold.options.renew:
            self._schedule.renew(hold, hold.acquired_at, FILL_UP_S)
        else:
            self._schedule.end(hold)
        # Not for a little: otherwise acquires would wake it all the time. But a short lease cannot wait.
        if hold.renewal.due_at < self._wake_at - min(RENEW_SLACK_S, renew_period(hold.lease.ttl) / 4):
            self._parker.wake()

    def owner_ended(self) -> None:
        """See to the holds of threads and tasks that have ended: nobody will release them."""
        with self._mutex, suppress(RuntimeError):  # there are no more threads
            for hold in self._holds:
                if hold.report.end_reported and not hold.owner_key.alive():
                    self._holds.remove(hold)
                elif hold.renewal.due_at == math.inf and not hold.owner_key.alive():
                    self.watch(hold)  # to report the end of its lease

    def rest(self) -> None:
        """End in `LINGER_S` unless a hold comes: the last one has gone. With the mutex."""
        if self._wake_at > self._needed_until:
            self._needed_until = self._clock() + LINGER_S
            with suppress(RuntimeError):  # its event loop is closed
                self._parker.wake()

    def read_on(self, writer: Hold) -> None:
        """Renew the reader of the same owner from now on, if there is one: the writer was released."""
        if (hold := writer.reader) is None:
            return
        with self._mutex:
            hold.writer, hold.renewal.stopped, now, lease = None, None, self._clock(), hold.lease
            lease.update(now)
            lease.ttl, lease.confirmation = hold.options.lease.ttl, None  # it was of the writer's lease
            # Otherwise the shorter validity remains. A longer lease has to be noted first.
            if writer.read_since == -math.inf:
                lease.on(LeaseEvent.DISOWNED, DISOWNED)
            elif writer.read_since < math.inf and lease.ttl <= self._masters.context.guard.noted:
                lease.renewed(writer.read_since, now)
            if hold in self._holds and hold.owner_key.alive():
                self.watch(hold)
        if hold.count < 1:
            end(self._masters, hold)  # a signal handler has released it meanwhile, here only
        if lease.state is LOST:
            self.report_loss(hold)

    def report_loss(self, hold: Hold, reason: str = "", cause: str = "") -> None:
        """Report a loss once: by the signal, the log, the event and the callback."""
        with self._mutex:
            if hold.report.end_reported:
                return
            hold.report.end_reported = True
            self._schedule.remove(hold)
            if not hold.owner_key.alive():
                self._holds.remove(hold)  # otherwise it stays for ever: a dead owner never releases
            reason, cause = reason or hold.reason, cause or hold.cause
            signal, on_lost = hold.report.signal, hold.options.on_lost
        held = self._clock() - hold.acquired_at
        if signal is not None:
            signal.set()
        try:
            emit_in_order(hold, events.Lost(hold.name, hold.owner, held, cause, reason))
        finally:
            # After the log record: it may end the process. In `finally`: an observer may raise.
            if on_lost is not None and cause != events.CLOSED:
                self._call_on_lost(on_lost, LeaseLostError(hold.name, reason))
        reader = self._holds.find(hold.owner_key, hold_name(hold.name, shared=True))
        if reader is not None and reader.writer is hold:  # its lease is the same
            self.report_loss(reader, reason, cause)

    def _take_due(self) -> list[Hold] | None:
        """The holds that are due; empty: sleep until ``_wake_at``; None: end. With the mutex."""
        now = self._clock()
        due = [] if self.stopped else self._schedule.take_due(now)
        if due:
            return due
        next_due = self._schedule.next_due()
        if self.stopped or (next_due == math.inf and now >= self._needed_until):
            return None
        # At first while it is needed: otherwise each release would have to wake it so that it can end.
        self._wake_at = min(next_due, self._needed_until if now < self._needed_until else math.inf)
        return []

    def _run_gen(self) -> WaitGenerator[None]:
        """Renew the holds that are due, until the client is closed or has held nothing for `LINGER_S`."""
        while True:
            with self._mutex:
                due = self._take_due()
                if due is None:
                    # With the mutex: otherwise an acquire could rely on a watchdog that is about to end.
                    self._ended()
                    return
            if not due:
                yield from self._parker.park(self._wake_at - self._clock())
                continue
            try:
                yield from self._renew_due(due)
            except BaseException as error:
                with self._mutex:
                    for hold in due:
                        if hold in self._holds:
                            self._schedule.retry(hold, self._clock())
                if self._holds.closed and isinstance(error, RLockError):
                    log.debug("no renewal: %s", error)
                else:
                    self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Log an error of a round that is tried again. Raises an interrupt again, or a cancellation."""
        if not isinstance(error, Exception):
            raise error
        with suppress(Exception):  # of a log handler: no lease may end by it
            log.error("a renewal round failed; it is tried again", exc_info=error)

    def _renew_due(self, due: Sequence[Hold]) -> WaitGenerator[None]:
        masters, began = self._masters, self._clock()
        renewing, lost, stopped = self._sort(due, began)
        try:
            if renewing:
                round_ = yield from renew(masters, renewing)
                # Before the wait for the last masters. Otherwise validity could end during that wait.
                lost += self._apply(round_.decided)
                took = self._clock() - began
        finally:
            # After the renewal. Otherwise the validity of other locks could end while observers run.
            for event in stopped:
                emit(event)
        for hold in lost:
            self.report_loss(hold)
        if renewing:
            if self._holds.client() is None:
                self._holds.client = lambda: self  # told once
                log.warning("the client of lock %r was collected: nobody can release it", renewing[0].name)
            with self._mutex:
                # Otherwise one slow master would delay the renewal of a short lease.
                until = min(self._schedule.next_due(), self._clock() + RENEW_STRAGGLERS_S)
            outcomes = yield from heal(masters, round_, until)
            masters.context.pending_events.emit()
            for hold in self._apply(outcomes):
                self.report_loss(hold)
            failed = sum(outcome.event is LeaseEvent.FAILED for outcome in outcomes)
            emit(events.Renewed(len(renewing), failed, took))

    def _sort(self, due: Sequence[Hold], now: float) -> tuple[list[Hold], list[Hold], list[events.Event]]:
        """The holds to renew, the lost ones, and the events of those that are not renewed any more."""
        renewing: list[Hold] = []
        lost: list[Hold] = []
        stopped: list[events.Event] = []
        for hold in due:
            self._holds.hear(hold)  # behind `now`: no lease counts as over before its confirmation is read
        with self._mutex:
            for hold in due:
                if hold not in self._holds:
                    continue
                if hold.lease.update(now) is LOST:
                    lost.append(hold)
                elif (stop := hold.renewal_stop(now)) is None:
                    renewing.append(hold)
                else:
                    if hold.options.renew and hold.renewal.stopped is None:
                        stopped.append(events.RenewalStopped(hold.name, hold.owner, *stop))
                    hold.renewal.stopped = stop
                    self._schedule.end(hold)
        return renewing, lost, stopped

    def _apply(self, outcomes: Sequence[RenewalOutcome]) -> list[Hold]:
        """Apply outcomes to their leases; the holds that are lost."""
        news: list[events.Event] = []
        lost: list[Hold] = []
        for outcome in outcomes:
            self._holds.hear(outcome.hold, early=True)
        with self._mutex:
            for hold, event, sent_at in outcomes:
                before, now = hold.lease.state, self._clock()  # not earlier: a loss that was told stays one
                if hold not in self._holds:
                    # Released meanwhile: otherwise "not ours" would be reported as a loss.
                    if (reader := hold.reader) is not None and event is LeaseEvent.RENEWED:
                        # Each master has one of the two leases. None of them is shorter than this.
                        reader.lease.renewed(sent_at, now, min(hold.lease.ttl, reader.lease.ttl))
                    continue
                if event is LeaseEvent.RENEWED:
                    state = hold.lease.renewed(sent_at, now)
                else:
                    hold.lease.update(now)
                    state = hold.lease.on(event, DISOWNED if event is LeaseEvent.DISOWNED else "")
                if state is LOST:
                    lost.append(hold)
                elif state is HELD:
                    if before is SUSPECT:
                        news.append(events.RenewalRecovered(hold.name, hold.owner))
                    self._schedule.renew(hold, sent_at)
                elif state is SUSPECT:
                    if before is HELD:
                        news.append(events.RenewalFailed(hold.name, hold.owner, hold.lease.remaining(now)))
                    self._schedule.retry(hold, sent_at)
        for each in news:
            emit(each)
        return lost
