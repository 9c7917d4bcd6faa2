"""Engine: what one client is in one process. Runs the procedures; keeps the lease table."""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from ..clock import Clock
from ..errors import LeaseLostError, NotHeldError, RLockError
from ..events import CLOSED, Lost, News, ReleaseUnsure, observed, tell
from ..model import LeaseState, LockStatistics
from ..procedures import acquire as acquiring
from ..procedures.acquire import AT_ONCE
from ..procedures.attempt import Asked
from ..procedures.inspect import statistics
from ..procedures.release import Released
from ..procedures.renew import Renewal, Round, heal, renew
from ..procedures.steps import Ask, AskMany, ClientContext, Procedure, Tell
from ..rules.commands import Command
from ..rules.holds import Hold, Holds, OwnerKey
from ..rules.keys import fresh_client_id, token_of, waiter_name
from ..rules.lease import LeaseEvent
from ..rules.options import ClientOptions, LockOptions
from ..rules.restart_guard import Guard
from ..rules.wire import WIRES
from . import lock_events
from .hand_off import HandOff
from .local_queue import LocalQueue, LocalTurn
from .waits import Waits
from .watchdog import AT_CLOSE, REASONS, Watchdog

log = logging.getLogger("rlock")
T = TypeVar("T")


class Engine(HandOff, ABC):
    """Connections and holds of one client in one process (and, with asyncio, in one event loop)."""

    _watchdog: Watchdog

    def __init__(self, masters: Sequence[str], options: ClientOptions, clock: Clock) -> None:
        self.pid = os.getpid()
        self.clock = clock
        # Seeded by the system: two processes forked from one must not back off in step.
        random = Random()
        guard = Guard(masters, options.max_ttl, options.restart_guard)
        self.context = ClientContext(
            masters, clock, random, guard, fresh_client_id(), wire=WIRES[options.interop]
        )
        self.mutex = threading.Lock()
        self.holds = Holds()
        self.closed = False
        self._local_queue = LocalQueue()
        #: Owner tokens that may have votes, by acquire under way.
        self._asking: dict[int, tuple[LockOptions, Asked]] = {}
        #: Holds that are no longer ours and of which the masters may not know it yet, by owner token.
        self._releasing: dict[str, Hold] = {}
        self._next_owners = {}

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def key(self) -> OwnerKey:
        """Who calls. Made once for each thread or task, kept by it alone."""

    @abstractmethod
    def _holding(self) -> None:
        """The first hold came, or the last one went. With the mutex."""

    @abstractmethod
    def _turn(self, name: str) -> LocalTurn:
        """A place in the line of this process."""

    # -- acquire -----------------------------------------------------------------------------------

    def nested(self, hold: Hold) -> bool:
        """One acquire more of what the owner has: True. Raises `LeaseLostError` after a loss.

        The caller returns at once: Ctrl-C behind this leaves an acquire that nobody gives back.
        """
        count = hold.count
        try:
            with self.mutex:
                if hold.lease.look(self.clock()) is LeaseState.LOST:
                    raise LeaseLostError(hold.name, hold.reason)
                hold.count = count + 1
            return True
        except BaseException:
            hold.count = count
            raise

    def acquiring(self, key: OwnerKey, options: LockOptions, until: float, asked: Asked) -> Waits[bool]:
        """By the masters, waiting until ``until``.

        The caller owes `give_back` after any exception, `lock_events.not_acquired` when it did not get it.
        """
        name = options.name
        began = asked.began = self.clock()
        if until == AT_ONCE and self.holds.taken(name, began):
            # Another owner of ours holds it validly: that is contention, and no master knows better.
            return False
        if until == AT_ONCE or options.fair:
            # In fair mode each owner has a ticket of its own, drawn when it comes, not when it is its turn.
            return (yield from self._contending(key, options, until, asked))
        turn = self._turn(name)
        try:
            line = self._local_queue
            if line.enter(turn) or (yield from line.waiting(turn, until - began)):
                if name == self._handed_on[0]:
                    yield from self._standing_back(name, until)
                return (yield from self._contending(key, options, until, asked))
        finally:
            turn.over = True
            self._local_queue.leave(turn)
        # Time over in the line. The thread in front may have waited for masters that have no vote, and not
        # for an owner.
        if self.holds.taken(name, self.clock()):
            return False
        return (yield from self._contending(key, options, AT_ONCE, asked))

    def _contending(self, key: OwnerKey, options: LockOptions, until: float, asked: Asked) -> Waits[bool]:
        with self.mutex:
            if self.closed:
                raise RLockError("the client is closed")
            if options.renew or options.on_lost is not None:
                try:
                    self._watchdog.ensure()
                except RuntimeError as error:
                    raise RLockError(f"lock {options.name!r} was not asked for: {error}") from error
        if not self._calls.met:
            yield from self._calls.meeting()
        self._asking[id(asked)] = (options, asked)
        got = yield from self._driver.performing(self._take(key, options, until, asked))
        # After an exception `give_back` does that, behind the undo: close() must find it until then.
        self._asking.pop(id(asked), None)
        return got

    def _take(self, key: OwnerKey, options: LockOptions, until: float, asked: Asked) -> Procedure[bool]:
        while True:
            grant = yield from acquiring.acquire(self.context, options, key.label, until, asked)
            if grant is None:
                return False
            hold = Hold(
                key,
                options,
                grant.owner,
                grant.sent_at,
                waiter=grant.waiter,
                hops=grant.hops,
                token=grant.token,
            )
            with self.mutex:
                if self.closed:
                    raise RLockError("the client was closed")
                # Every exit checks: the owner may have been kept from running since the verdict.
                held = hold.lease.look(self.clock()) is LeaseState.HELD
                if held:
                    if observed():
                        hold.early = News()
                    self.holds.add(hold)
                    if len(self.holds) == 1:
                        self._holding()
                    if options.renew or options.on_lost is not None:
                        self._watchdog.watch(hold)
                    else:
                        self.holds.unwatch(hold)
            if held:
                if hold.early is not None:
                    lock_events.acquired(hold, grant, asked, self.clock, len(self.context.masters))
                return True
            self._take_back(options, asked)

    def give_back(self, key: OwnerKey, options: LockOptions, asked: Asked, error: BaseException) -> None:
        """Undo an acquire that ended with an exception, without waiting for anybody.

        Ctrl-C can come between any two lines, a cancellation at any wait, also after the grant: the caller
        never learns that it has the lock, so whatever was asked for is given back.
        """
        hold = self.holds.find(key, options.name)
        if hold is not None and hold.owner in asked:
            lock_events.taken_back(hold, asked)
            self._forget(hold)
        self._take_back(options, asked)
        self._asking.pop(id(asked), None)
        # Behind the undo: votes must not wait for observers.
        lock_events.not_acquired(options, asked, self.clock, error)

    def _take_back(self, options: LockOptions, asked: Asked) -> None:
        for owner in list(asked):
            waiter = waiter_name(owner, self.context.client_id)
            command = self.context.release(options.name, owner, waiter=waiter, publish=False)
            self._calls.tell(Tell(command, resend_for=options.lease.ttl))
            asked.remove(owner)

    # -- release -----------------------------------------------------------------------------------

    def held(self, name: str) -> Hold:
        """The caller's hold, lost or not. Raises `NotHeldError`."""
        hold = self.hold(name)
        if hold is None:
            raise NotHeldError(name, self.holds.holder(name))
        return hold

    def releasing(self, hold: Hold, left: int) -> Waits[None]:
        """Set the hold count to ``left``; 0 gives the lock up. Raises `LeaseLostError` after a loss."""
        try:
            try:
                with self.mutex:
                    began = self.clock()
                    lost = hold.lease.look(began) is LeaseState.LOST
                    reason = hold.reason
                    hold.count = left
                    if left == 0:
                        self._remove(hold)
                        # Before the masters know: a renewal that crosses the release must see no loss in it.
                        hold.lease.on(LeaseEvent.RELEASE)
                        if not lost:
                            self._releasing[hold.owner] = hold
                            if hold.waiter:
                                self._driver.finished.append(token_of(hold.waiter))
                if lost:
                    # Here if the owner is faster than the watchdog: on_lost is called for every loss.
                    self._watchdog.report(hold, reason)
                    raise LeaseLostError(hold.name, reason)
                if left:
                    return
                released, handed = yield from self._giving_up(hold)
            except BaseException as error:
                if self.closed and isinstance(error, RLockError) and hold.owner in self._releasing:
                    lock_events.released(hold, began, self.clock(), confirmed=False)
                    return  # close() has released it in our place
                if left == 0 and not self.closed:
                    self._forget(hold)
                raise
            finally:
                self._releasing.pop(hold.owner, None)
            if released is Released.NOT_OURS and not self.closed:
                event = LeaseEvent.DISOWNED
                self._watchdog.report(hold, REASONS[event], event.value)
                raise LeaseLostError(hold.name, REASONS[event])
            if released is Released.UNSURE and not self.closed:
                tell(ReleaseUnsure(hold.name, hold.owner, hold.lease.ttl))
            if observed():
                confirmed = released is Released.DONE
                lock_events.released(hold, began, self.clock(), confirmed=confirmed, handed=handed)
        except BaseException:
            if left == 0:
                # Ctrl-C where nothing else tells its end, or a close at the same time.
                lock_events.given_up(hold, self.clock())
            raise

    def _freeing(self, hold: Hold) -> Command:
        return self.context.release(hold.name, hold.owner, waiter=hold.waiter)

    def _remove(self, hold: Hold) -> None:
        self.holds.remove(hold)
        if not len(self.holds):
            self._holding()

    def _forget(self, hold: Hold) -> None:
        """Drop a hold and take its votes back, without waiting for anybody."""
        with self.mutex:
            self._remove(hold)
            # A healing that crosses this has to see it.
            hold.lease.on(LeaseEvent.RELEASE)
        self._calls.tell(Tell(self._freeing(hold), resend_for=hold.lease.ttl))
        lock_events.given_up(hold, self.clock())

    def reset(self, name: str) -> None:
        """Forget every hold of this process on a lock, whoever has it."""
        for hold in self.holds:
            if hold.name == name:
                self._forget(hold)

    def hold(self, name: str) -> Hold | None:
        """The caller's hold of a lock, lost or not."""
        return self.holds.find(self.key(), name)

    # -- rounds ------------------------------------------------------------------------------------

    def performing(self, procedure: Procedure[T]) -> Waits[T]:
        """Run a procedure on this client's connections."""
        return self._driver.performing(procedure)

    def telling(self, name: str, timeout: float) -> Waits[LockStatistics]:
        """Who waits for a lock."""
        own = [place.token for place in self._subscriptions.waiting(name)]
        local = len(own) + self._local_queue.length(name)
        return self.performing(statistics(self.context, name, timeout, own, local))

    def _renewing(self, holds: Sequence[Hold]) -> Waits[Round]:
        return self.performing(renew(self.context, holds))

    def _healing(self, round_: Round, until: float) -> Waits[list[Renewal]]:
        return self.performing(heal(self.context, round_, until))

    # -- the end -----------------------------------------------------------------------------------

    def closing(self) -> Waits[None]:
        """Release what is held, take back what is asked for, end connections and the watchdog."""
        with self.mutex:
            if self.closed:
                return
            self.closed = True
            now = self.clock()
            lost = [hold for hold in self.holds if hold.lease.look(now) is LeaseState.LOST]
            holds = [hold for hold in self.holds if hold not in lost]
            for hold in holds:
                # It stays in the table, lost: its owner is told so when it releases.
                self.holds.unwatch(hold)
                hold.lease.on(LeaseEvent.DISOWNED, AT_CLOSE)
                hold.reported = True
            # Those too of which another owner is just about to tell the masters: it may be too late.
            releasing = [*holds, *self._releasing.values()]
        for hold in holds:
            if hold.signal is not None:
                hold.signal.set()
        try:
            # Rounds of others have been written and may be won: their undo goes out on the same
            # connections, while these are still there.
            self._calls.refuse()
            # Before the acquires: a successor goes from here to the list of its acquire, never back.
            for next_owner, next_waiter in list(self._next_owners.items()):
                self._take_back_from(next_waiter, next_owner, None)
            for options, asked in list(self._asking.values()):
                self._take_back(options, Asked(asked))
            if releasing:
                # All written first, then one wait for all of them: bounded, however many there are.
                releases = [Ask(self._freeing(one), one.options.lease.request_timeout) for one in releasing]
                try:
                    yield from self._calls.asking_many(AskMany(releases))
                except RLockError as error:
                    log.warning("the masters were not told: %s", error)
            yield from self._calls.draining()
        except GeneratorExit:
            raise
        except BaseException:
            # What was written must be done first: a master that is hung up on forgets what it has not read.
            yield from self._calls.draining(to_the_end=True)
            raise
        finally:
            # Also when it is interrupted: nothing of ours may go on.
            self._watchdog.stop()
            self._subscriptions.close()
            self._calls.close()
            for hold in holds:
                lock_events.emit_in_order(
                    hold, Lost(hold.name, hold.owner, now - hold.acquired_at, CLOSED, AT_CLOSE)
                )
            for hold in lost:
                # The watchdog did not come to it, or had no eye on it.
                self._watchdog.report(hold)

    def abandon(self) -> None:
        """In a forked child: the parent's holds, threads and sockets are not ours."""
        self.closed = True
        self._subscriptions.abandon()
        self._calls.abandon()
