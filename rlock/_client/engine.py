"""Engine: one client in one process, composed of its parts. It is the port of the procedures."""

import os
import socket
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from .. import events
from ..clock import Clock
from ..errors import NOT_HERE, LeaseLostError, NotHeldError, QuorumUnreachableError, RLockError
from ..events import PendingEvents, emit, log, observed
from ..model import LeaseState
from ..procedures.acquire import FOR_EVER, acquire
from ..procedures.contender import Contender, Grant
from ..procedures.port import ClientContext, Port, WaitGenerator
from ..procedures.release import Released, release
from ..procedures.transfer import detach
from ..procedures.withdraw import withdraw
from ..rules import commands, keys, timing
from ..rules.handles import Handle
from ..rules.holds import Hold, OwnerKey
from ..rules.lease import Lease, LeaseEvent
from ..rules.options import ClientOptions, LockOptions
from ..rules.restart_guard import Guard
from .calls import Calls
from .closing import close
from .connections import Wiring
from .hold_table import HELD_OR_SUSPECT, HoldTable
from .local_queue import LocalQueue
from .runtime import Runtime
from .subscriptions import Subscriptions
from .watchdog import DISOWNED, Watchdog


class Engine(Port):
    """Connections and holds of one client in one process (and, with asyncio, in one event loop)."""

    masters: Calls[Any]
    holds: HoldTable
    notifications: Subscriptions[Any]
    watchdog: Watchdog

    def __init__(
        self, endpoints: Sequence[Any], options: ClientOptions, clock: Clock, runtime: Runtime
    ) -> None:
        self.pid = os.getpid()
        self.clock = clock
        guard = Guard(len(endpoints), options.max_ttl, options.restart_guard)
        guard.on_uncounted, guard.on_longer = self._grant_uncounted, self._longer_lease
        # Seeded by the system: otherwise two processes forked from one would back off in step.
        random = Random()
        client_id, wire = os.urandom(8).hex(), keys.WIRES[options.interop]
        masters = [one.label for one in endpoints]
        groups = {i: one.replicas for i, one in enumerate(endpoints) if one.replicas is not None}
        self.context = ClientContext(masters, clock, random, guard, client_id, wire=wire, groups=groups)
        self.runtime = runtime
        self._endpoints = endpoints
        self.timeout = options.lease(None).request_timeout  # seconds, of a request to all masters

    def _compose(
        self, connections: Any, watchdog: Any, calls: Any = Calls, messages: Any = Subscriptions
    ) -> None:
        wiring = Wiring(connections, self._endpoints, self.context, self.timeout, self.runtime)
        self.masters = calls(wiring)
        self.notifications = messages(wiring, self.pass_on)
        self.holds = HoldTable(self.clock, self.runtime, self.masters, self._holding)
        self.under_way = self.holds.under_way
        self._local_queue = LocalQueue(self.runtime, self.clock, self.holds.mutex)
        self.watchdog = watchdog(self.holds, self.masters)

    @abstractmethod
    def key(self) -> OwnerKey: ...

    @abstractmethod
    def _holding(self) -> None:
        """Note that the first hold came, or that the last one went. With the mutex."""

    def _grant_uncounted(self, master: int, news: bool) -> None:
        context, now = self.context, self.clock()
        rest, reason = context.guard.remaining(master, now), context.guard.fault(master, now)
        context.pending_events.add(events.MasterGuarded(context.masters[master], rest, reason, news))

    def _longer_lease(self, master: int, longest: float, before: float) -> None:
        self.context.pending_events.add(events.MaxTtlDiffers(self.context.masters[master], longest, before))

    def interrupted(self) -> bool:
        """Whether a signal handler or finalizer calls, and its thread is in the middle of a change."""
        owned = self.holds.mutex._is_owned() or self.masters._mutex._is_owned()
        return bool(owned or self.notifications._mutex._is_owned())

    def acquire(self, options: LockOptions, until: float) -> WaitGenerator[bool]:
        """Count a nested acquire at once. Otherwise ask the masters, until ``until``."""
        key = self.key()
        if self.holds.again(key, options):
            return True
        while True:
            contender = self.contender(key, options, until)
            try:
                if self.finish(contender, got=(yield from acquire(self, contender))):
                    return True
            except BaseException as error:
                self.give_back(contender, error)
                raise
            if until < FOR_EVER:
                return False
            # A signal handler took the lock, and another one gave it back.

    def contender(self, key: OwnerKey, options: LockOptions, until: float) -> Contender:
        """A new acquire. Raises `RLockError` if it cannot wait for the masters here."""
        if self.interrupted():
            raise RLockError(f"lock {options.name!r} was not asked for: {NOT_HERE}")
        return Contender(key, options, until, self.clock(), self.holds.beside(key, options))

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        return self._local_queue.enter(contender)

    def leave(self, contender: Contender) -> None:
        self._local_queue.leave(contender)

    def prepare(self, contender: Contender) -> WaitGenerator[None]:
        options = contender.options
        with self.holds.mutex:
            if self.holds.closed:
                raise RLockError("the client is closed")
            if options.renew or options.on_lost is not None:
                try:
                    self.watchdog.ensure_running()
                except RuntimeError as error:
                    raise RLockError(f"lock {options.name!r} was not asked for: {error}") from error
        if self.masters._connections.is_new:  # the masters' clocks are not known
            yield from self.masters.connect()
        self.under_way.acquiring[id(contender.owners)] = (options, contender.owners)

    def admit(self, contender: Contender, grant: Grant) -> bool:
        options = contender.options
        hold = Hold(contender.key, options, *grant[:4], grant.hold_count, writer=contender.writer)
        if grant.confirmation is not None:
            hold.lease = Lease(options.lease.ttl, grant.sent_at, grant.confirmation)
            self.holds.hear(hold)
        with self.holds.mutex:
            if self.holds.closed:
                raise RLockError("the client was closed")
            # Every exit checks: the owner may have been kept from running since the verdict.
            held = hold.lease.update(self.clock()) in HELD_OR_SUSPECT and not self.owns(contender)
            if held:
                if observed():
                    hold.report.pending_events = PendingEvents()
                self.holds.add(hold)
                if options.renew or options.on_lost is not None:
                    self.watchdog.watch(hold)
        if held and hold.report.pending_events is not None:
            self.holds.report_acquired(hold, grant, contender)
        return held

    def taken(self, name: str) -> bool:
        hold = self.holds.by_name.get(name)
        return hold is not None and self.holds.remaining(hold) > 0.0

    def owns(self, contender: Contender) -> bool:
        return self.holds.find(contender.key, contender.options.hold_name) is not None

    def report_place(self, contender: Contender) -> None:
        ballot = contender.findings.ballot
        lengths = sorted(vote.queue.length for vote in ballot.votes.values() if vote.queue.length)
        if len(lengths) >= ballot.quorum and observed() and not contender.told_queued:
            # First: an interrupt in between may leave the event out, but never counts a waiter for ever.
            contender.told_queued = True
            emit(events.Queued(contender.name, lengths[-ballot.quorum]))

    def report_failure(self, error: QuorumUnreachableError, failures: int) -> None:
        if failures == 1 or (failures >= 8 and failures & (failures - 1) == 0):
            log.warning("still waiting (failed rounds: %d): %s", failures, error)

    def finish(self, contender: Contender, *, got: bool) -> bool:
        self.under_way.acquiring.pop(id(contender.owners), None)
        if not got:
            if self.holds.again(contender.key, contender.options):  # see `owns`
                return True
            self.holds.report_not_acquired(contender)
        return got

    def give_back(self, contender: Contender, error: BaseException) -> None:
        """Undo an acquire that ended with an exception, possibly after its grant. Waits for nothing."""
        try:
            hold = self.holds.find(contender.key, contender.options.hold_name)
            if hold is not None and hold.owner in contender.owners:
                hold.keep_no_longer()  # nobody has had it
                if not contender.told_end:
                    # Its acquire was not emitted: otherwise an end would be, without a begin.
                    hold.report.pending_events, hold.report.end_reported = None, True
                self.holds.give_up(hold)
        finally:
            # Also after a second Ctrl-C.
            withdraw(self, contender)
        self.under_way.acquiring.pop(id(contender.owners), None)
        # After the undo: votes must not wait for observers.
        self.holds.report_not_acquired(contender, error)

    def hold(self, name: str) -> Hold | None:
        return self.holds.find(self.key(), name)

    def held(self, name: str) -> Hold:
        """The caller's hold, lost or not. Raises `NotHeldError`."""
        if (hold := self.hold(name)) is None:
            raise NotHeldError(keys.lock_name(name), self.holds.holder(keys.lock_name(name)))
        return hold

    def release_gen(self, hold: Hold) -> WaitGenerator[None]:
        """Give back one acquire; the last one gives the lock up.

        Raises `LeaseLostError` after a loss, and `NotHeldError` if somebody has released it since.
        """
        if self.interrupted():
            self._release_here(hold)
            return
        began = self.clock()
        try:
            outcome = yield from self._release_held(hold)
            if outcome is not None:
                self._report_release(hold, began, outcome)
        except BaseException as error:
            if hold.count < 1 and type(error) is not NotHeldError:
                # Otherwise Ctrl-C or a close at the same time leaves the end unreported.
                self.holds.report_released(hold, self.clock(), confirmed=False)
            raise

    def _release_held(self, hold: Hold, handle: Handle | None = None) -> WaitGenerator[Released | None]:
        """Give back one acquire, or all to a handle; the last one on the masters, too. None: tell nothing."""
        releasing, within = self.under_way.releasing, False
        hold_count, lost = -1, False
        try:
            began, confirmation = self.clock(), hold.lease.confirmation
            if confirmation is not None and began >= hold.lease.valid_until:
                # The masters may have confirmed the lease while this process did not run.
                yield from self.masters.collect([confirmation.ballot], began)
            with self.holds.mutex:
                lost = hold.lease.update(began) is LeaseState.LOST
                if hold.count < 1:
                    raise NotHeldError(hold.name, self.holds.holder(hold.name))
                hold.count = hold_count = 0 if handle else hold.count - 1  # no call since the question
                if hold_count == 0:
                    within = hold.writer is not None  # not before: `later` may have ended the writer
                    self.holds.remove(hold)
                    # Before the masters know: otherwise a renewal at the same time would report a loss.
                    hold.lease.on(LeaseEvent.RELEASE)
                    releasing[hold.owner] = hold
                    if not lost and hold.waiter and (rest := hold.rest(began)):
                        until = began + self.timeout + rest
                        self.notifications.kept.append((keys.owner_of_waiter(hold.waiter), until))
            if lost:
                # Otherwise on_lost is not called if the owner is faster than the watchdog.
                self.watchdog.report_loss(hold, hold.reason)
                raise LeaseLostError(hold.name, hold.reason)
            if hold_count or within:
                return None if hold_count else Released.DONE
            outcome = yield from self._give_up(hold, handle)
            self.watchdog.read_on(hold)  # in the block: after Ctrl-C `give_up` does it
            return outcome
        except BaseException as error:
            if self.holds.closed and isinstance(error, RLockError) and hold.owner in releasing and not lost:
                self.holds.report_released(hold, began, confirmed=False)
                return None  # close() has released it
            ends = hold_count == 0 or (hold_count < 0 and hold.count == 1)  # Ctrl-C may come before the store
            if ends and not self.holds.closed:
                self.holds.give_up(hold)
            raise
        finally:
            releasing.pop(hold.owner, None)

    def _release_here(self, hold: Hold) -> None:
        """Give back one acquire in a handler or finalizer that interrupted a change."""
        if hold.count < 1:
            raise NotHeldError(hold.name, self.holds.holder(hold.name))
        hold.count = hold_count = hold.count - 1  # no call since the question: a finalizer may release it
        if hold_count == 0:
            self.under_way.releasing[hold.owner] = hold  # first: close() must find it
            self.holds.forget(hold)
            # In another thread: this one has to return before the masters can be told.
            self.runtime.later(partial(self._release_late, hold))

    def _report_release(self, hold: Hold, began: float, outcome: Released) -> None:
        if outcome is Released.NOT_OURS and not self.holds.closed:
            self.watchdog.report_loss(hold, DISOWNED, LeaseEvent.DISOWNED.value)
            raise LeaseLostError(hold.name, DISOWNED)
        if outcome is Released.UNSURE and not self.holds.closed:
            unsure = events.KeepUnsure if (rest := hold.rest(began)) else events.ReleaseUnsure
            emit(unsure(hold.name, hold.owner, rest or hold.lease.ttl))
        if observed():
            self.holds.report_released(hold, began, confirmed=outcome is Released.DONE)

    def _give_up(self, hold: Hold, handle: Handle | None) -> WaitGenerator[Released]:
        return release(self, hold) if handle is None else detach(self, hold, handle)

    def _release_late(self, hold: Hold) -> None:
        """Release a hold that has ended in the middle of a change; tell of a loss that came before."""
        if self.holds.state(hold) is LeaseState.LOST:
            self.watchdog.report_loss(hold, hold.reason)
        self.holds.give_up(hold)

    def pass_on(self, name: str, owner: str, master: int) -> None:
        """Pass on a hand-off whose waiter has left, or whose place came back behind its release."""
        waiter = keys.waiter_name(owner, self.context.client_id)
        with self.holds.mutex:
            # A holder passes a late hand-off on by its release. The release of a lost hold may come late.
            now = self.clock()
            places = [hold.waiter for hold in self.holds if now < hold.lease.valid_until]
            holding = waiter in places or owner in [hold.owner for hold in self.holds]
            if holding or now < dict(self.notifications.kept).get(owner, now):
                return
        leave = commands.leave_queue(self.context.wire, name, waiter)
        self.masters.send(leave, (master,), resend_for=timing.CLAIM_S)

    def _close_gen(self) -> WaitGenerator[None]:
        return close(self.holds, self.masters, self.notifications, self.watchdog)

    def abandon(self) -> None:
        self.holds.closed = True
        # Without the mutexes: a thread that the forked child does not have may have entered them.
        self.notifications._connections.abandon()
        self.masters._connections.abandon()


def client_label(thread: str) -> str:
    return keys.client_label(socket.gethostname(), os.getpid(), thread)
