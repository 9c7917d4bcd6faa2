"""Engine: what one client is in one process. Runs the procedures; keeps the lease table."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from random import Random
from typing import ClassVar, TypeVar

from ..clock import Clock
from ..errors import LeaseLostError, NotHeldError, RLockError
from ..model import LeaseState, LockStatistics
from ..procedures import acquire as acquiring
from ..procedures.acquire import AT_ONCE
from ..procedures.inspect import statistics
from ..procedures.release import Released, gave_heir, inherited, may_barge, outcome, release
from ..procedures.renew import Renewal, Round, heal, renew
from ..procedures.steps import Ask, AskMany, Procedure, Tell, Terms
from ..rules import scripts
from ..rules.guard import Guard
from ..rules.holds import Hold, Holds, OwnerKey, Pulse
from ..rules.keys import client_label, fresh_station, owner_token, token_of, waiter_name
from ..rules.lease import LeaseEvent
from ..rules.options import ClientOptions, LockOptions
from ..rules.places import Bequest, Place
from ..rules.quorum import Ballot
from ..rules.timing import CLAIM_S
from .driver import Driver
from .fanout import Fanout
from .listener import Listener
from .masters import Endpoint
from .turnstile import Turn, Turnstile
from .watchdog import REASONS, Watchdog

log = logging.getLogger("rlock")
T = TypeVar("T")


class Engine:
    """Connections, threads and holds of one client in one process. Thread-safe."""

    #: Engines that hold something: they live until it is released, whether or not anybody still has
    #: their client, so that the end of the process can free it.
    holding: ClassVar[set[Engine]] = set()

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions, clock: Clock) -> None:
        self.pid = os.getpid()
        self.clock = clock
        # Seeded by the system: two processes forked from one must not back off in step.
        random = Random()
        station = fresh_station()
        masters = [endpoint.label for endpoint in endpoints]
        guard = Guard(masters, options.max_ttl, options.restart_guard)
        self.terms = Terms(masters, clock, random, guard, station)
        request_timeout = options.lease(None).request_timeout
        self.mutex = threading.Lock()
        self.holds = Holds()
        self.closed = False
        self._fanout = Fanout(endpoints, request_timeout, self.terms)
        self._listener = Listener(endpoints, request_timeout, clock, random, station, self._pass_on)
        self._driver = Driver(self._fanout, self._listener, clock, self._pass_on)
        self._turnstile = Turnstile()
        self._watchdog = Watchdog(self.holds, self.mutex, clock, self._renew, self._heal)
        self._local = threading.local()
        #: Owner tokens that may have votes, by acquire under way.
        self._asking: dict[int, tuple[LockOptions, list[str]]] = {}
        #: Holds that are no longer ours and of which the masters may not know it yet, by owner token.
        self._releasing: dict[str, Hold] = {}

    # -- identity ----------------------------------------------------------------------------------

    def key(self) -> OwnerKey:
        """Who the calling thread is. Made once for each thread, kept by the thread alone."""
        try:
            key: OwnerKey = self._local.key
        except AttributeError:
            self._local.pulse = Pulse()
            key = self._local.key = OwnerKey(client_label(_thread_name()), self._local.pulse)
        return key

    def hold(self, name: str) -> Hold | None:
        """The calling thread's hold of a lock, lost or not."""
        return self.holds.find(self.key(), name)

    # -- acquire and release -----------------------------------------------------------------------

    def acquire(self, options: LockOptions, until: float) -> bool:
        """Nested: counted here, at once. Else: by the masters, waiting until ``until``."""
        key, name = self.key(), options.name
        hold = self.holds.find(key, name)
        if hold is not None:
            with self.mutex:
                if hold.lease.look(self.clock()) is LeaseState.LOST:
                    raise LeaseLostError(name, hold.reason)
                hold.count += 1
            return True
        if until == AT_ONCE:
            # Another thread of ours holds it validly: that is contention, and no master knows better.
            return not self.holds.taken(name, self.clock()) and self._contend(key, options, until)
        if options.fair:
            # Each thread has a ticket of its own, drawn when it comes and not when it is its turn here.
            return self._contend(key, options, until)
        turn = Turn(name)
        try:
            if self._turnstile.enter(turn, until - self.clock()):
                return self._contend(key, options, until)
        finally:
            turn.over = True
            self._turnstile.leave(turn)
        # Time over in the line. With the masters out of reach that is not contention; ask them.
        return not self._fanout.reachable and self._contend(key, options, AT_ONCE)

    def _contend(self, key: OwnerKey, options: LockOptions, until: float) -> bool:
        with self.mutex:
            if self.closed:
                raise RLockError("the client is closed")
            if options.renew or options.on_lost is not None:
                try:
                    self._watchdog.ensure()
                except RuntimeError as error:
                    raise RLockError(f"lock {options.name!r} was not asked for: {error}") from error
        self._fanout.meet()
        asked: list[str] = []
        try:
            self._asking[id(asked)] = (options, asked)
            return self.perform(self._take(key, options, until, asked))
        except BaseException:
            # Ctrl-C can come between any two lines, also after the grant: the caller never learns that
            # it has the lock, so whatever was asked for is given back.
            hold = self.holds.find(key, options.name)
            if hold is not None and hold.owner in asked:
                self._forget(hold)
            self._take_back(options, asked)
            raise
        finally:
            self._asking.pop(id(asked), None)

    def _take(self, key: OwnerKey, options: LockOptions, until: float, asked: list[str]) -> Procedure[bool]:
        while True:
            grant = yield from acquiring.acquire(self.terms, options, key.label, until, asked)
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
                # Every exit checks: the thread may have been kept from running since the verdict.
                if hold.lease.look(self.clock()) is LeaseState.HELD:
                    self.holds.add(hold)
                    self.holding.add(self)
                    if options.renew or options.on_lost is not None:
                        self._watchdog.watch(hold)
                    else:
                        self.holds.unwatch(hold)
                    return True
            self._take_back(options, asked)

    def _take_back(self, options: LockOptions, asked: list[str]) -> None:
        for owner in list(asked):
            waiter = waiter_name(owner, self.terms.station)
            command = scripts.release(options.name, owner, waiter=waiter, publish=False)
            self._fanout.tell(Tell(command, owed_for=options.lease.ttl))
        asked.clear()

    def release(self, name: str) -> None:
        """One acquire less; with the last one the masters are told."""
        hold = self.hold(name)
        if hold is None:
            raise NotHeldError(name)
        self.release_hold(hold, hold.count - 1)

    def release_hold(self, hold: Hold, left: int) -> None:
        """Set the hold count to ``left``; 0 gives the lock up. Raises `LeaseLostError` after a loss."""
        try:
            with self.mutex:
                lost = hold.lease.look(self.clock()) is LeaseState.LOST
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
                if not self.closed:
                    self._watchdog.report(hold, reason)
                raise LeaseLostError(hold.name, reason)
            if left:
                return
            released = self._give_up(hold)
        except BaseException as error:
            if self.closed and isinstance(error, RLockError) and hold.owner in self._releasing:
                return  # close() has released it in our place
            if left == 0 and not self.closed:
                self._forget(hold)
            raise
        finally:
            self._releasing.pop(hold.owner, None)
        if self.closed:
            return
        if released is Released.NOT_OURS:
            self._watchdog.report(hold, REASONS[LeaseEvent.DISOWNED])
            raise LeaseLostError(hold.name, REASONS[LeaseEvent.DISOWNED])
        if released is Released.UNSURE:
            log.warning(
                "lock %r: fewer than a quorum confirmed the release; what is left of it on the others ends "
                "within %g s after they answer again",
                hold.name,
                hold.lease.ttl,
            )

    def _give_up(self, hold: Hold) -> Released:
        """Release it on the masters, in favour of a thread of ours where that is allowed."""
        heir = self._listener.heir(hold.name)
        successor = "" if heir is None else owner_token(heir.label)
        procedure = release(
            self.terms,
            hold.name,
            hold.owner,
            hold.options.lease,
            waiter=hold.waiter,
            heir=heir,
            successor=successor,
            barging=may_barge(hold, heir),
        )
        ballot: Ballot | None = None
        given = False
        try:
            ballot = self.perform(procedure)
            tokens = [] if heir is None else inherited(ballot)
            if heir is not None and len(tokens) >= ballot.quorum:
                # Validity counts from before the release was sent: no master can have written it earlier.
                bequest = Bequest(successor, ballot.sent_at, hold.hops + 1, tokens)
                given = self._listener.bequeath(heir, bequest)
        finally:
            if heir is not None and not given:
                self._disinherit(heir, successor, ballot)
        return outcome(self.terms, ballot)

    def _disinherit(self, heir: Place, successor: str, ballot: Ballot | None) -> None:
        """Take back what masters gave, or may yet give, to a successor that nobody will be."""
        maybe = gave_heir(ballot, len(self.terms.masters))
        if maybe:
            undo = scripts.release(heir.name, successor)
            self._fanout.tell(Tell(undo, maybe, owed_for=heir.lease_ms / 1000))

    def _pass_on(self, name: str, token: str, lease_s: float = CLAIM_S) -> None:
        """Give on at once what was handed to one of ours that has gone, and what would else run out."""
        waiter = waiter_name(token, self.terms.station)
        with self.mutex:
            done = self._driver.finished
            if self.closed or token in done or any(hold.owner == token for hold in self.holds):
                return
            # Handed late to the place of one who has the lock by the other masters: the next one could
            # do nothing with a minority.
            hand_on = all(hold.waiter != waiter for hold in self.holds)
        release = scripts.release(name, token, waiter=waiter, hand_on=hand_on)
        self._fanout.tell(Tell(release, owed_for=lease_s))

    def _remove(self, hold: Hold) -> None:
        self.holds.remove(hold)
        if not len(self.holds):
            self.holding.discard(self)

    def _forget(self, hold: Hold) -> None:
        """Drop a hold and take its votes back, without waiting for anybody."""
        with self.mutex:
            self._remove(hold)
            # A healing that crosses this has to see it.
            hold.lease.on(LeaseEvent.RELEASE)
        command = scripts.release(hold.name, hold.owner, waiter=hold.waiter)
        self._fanout.tell(Tell(command, owed_for=hold.lease.ttl))

    def reset(self, name: str) -> None:
        """Forget every hold of this process on a lock, whichever thread has it."""
        for hold in self.holds:
            if hold.name == name:
                self._forget(hold)

    def perform(self, procedure: Procedure[T]) -> T:
        """Run a procedure on this client's connections."""
        return self._driver.perform(procedure)

    def statistics(self, name: str, timeout: float) -> LockStatistics:
        """Who waits for a lock."""
        own = [place.token for place in self._listener.waiting(name)]
        local = len(own) + self._turnstile.length(name)
        return self.perform(statistics(self.terms, name, timeout, own, local))

    def _renew(self, holds: Sequence[Hold]) -> Round:
        return self.perform(renew(self.terms, holds))

    def _heal(self, round_: Round, until: float) -> list[Renewal]:
        return self.perform(heal(self.terms, round_, until))

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Release what is held, take back what is asked for, end threads and connections."""
        with self.mutex:
            if self.closed:
                return
            self.closed = True
            holds = [hold for hold in self.holds if hold.lease.look(self.clock()) is not LeaseState.LOST]
            for hold in holds:
                # It stays in the table, lost: its owner is told so when it releases.
                self.holds.unwatch(hold)
                hold.lease.on(LeaseEvent.DISOWNED, "its client was closed")
                log.warning("lock %r was still held when its client was closed; it is released", hold.name)
            # Those too of which another thread is just about to tell the masters: it may be too late.
            releasing = [*holds, *self._releasing.values()]
        for hold in holds:
            if hold.signal is not None:
                hold.signal.set()
        # Rounds of other threads have been written and may be won: their undo goes out on the same
        # connections, while these are still there.
        self._fanout.refuse()
        for options, asked in list(self._asking.values()):
            self._take_back(options, list(asked))
        if releasing:
            # All written first, then one wait for all of them: bounded, however many there are.
            releases = [
                Ask(
                    scripts.release(hold.name, hold.owner, waiter=hold.waiter),
                    hold.options.lease.request_timeout,
                )
                for hold in releasing
            ]
            try:
                self._fanout.ask_many(AskMany(releases))
            except RLockError as error:
                log.warning("the masters were not told: %s", error)
        self._fanout.drain()
        self.holding.discard(self)
        self._watchdog.stop()
        self._listener.close()
        self._fanout.close()

    def abandon(self) -> None:
        """In a forked child: the parent's holds, threads and sockets are not ours."""
        self.closed = True
        self.holding.discard(self)
        self._listener.abandon()
        self._fanout.abandon()


def _thread_name() -> str:
    # Not threading.current_thread(): for a thread that was not started by `threading` it would make a
    # dummy Thread object that stays for ever.
    ident = threading.get_ident()
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.name
    return f"thread-{threading.get_native_id()}"
