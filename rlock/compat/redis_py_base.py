"""The part of redis-py's lock interface that threads and tasks share, and its errors."""

from __future__ import annotations

import math
import os
import threading
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import redis.exceptions

from .._client.engine import Engine
from .._client.watchdog import DISOWNED
from ..errors import LeaseLostError, NotHeldError, QuorumUnreachableError, RLockError
from ..model import LeaseState
from ..procedures.acquire import AT_ONCE, FOR_EVER
from ..procedures.inspect import locked, unreachable
from ..procedures.port import Request, WaitGenerator
from ..recipes.holding import contend
from ..rules import commands
from ..rules.holds import Hold, OwnerKey, RenewalState
from ..rules.lease import Lease, LeaseEvent, LockVotes
from ..rules.options import LockOptions
from ..rules.quorum import Settle
from ..rules.timing import drift, lease_ms

NOT_OWNED = "Cannot release a lock that's not owned or is already unlocked."


class LockError(RLockError, redis.exceptions.LockError):
    """The lock was not acquired in time, or the call needs a lock that is held."""

    def __init__(self, message: str, lock_name: str) -> None:
        super().__init__(message, lock_name)
        self.args = (message, lock_name)
        self.lock_name = lock_name

    def __str__(self) -> str:
        return str(self.args[0])


class LockNotOwnedError(LeaseLostError, redis.exceptions.LockNotOwnedError):
    """The hold ended without a release, or never was one of this process."""

    def __init__(self, lock_name: str, reason: str) -> None:
        redis.exceptions.LockNotOwnedError.__init__(self, reason, lock_name)  # what its repr reads
        LeaseLostError.__init__(self, lock_name, reason)


class LockUnreachableError(QuorumUnreachableError, redis.exceptions.ConnectionError):
    """Too few masters answered or may vote."""


class Owner:
    """Lives as long as the thread, or the lock, that can still release the hold."""

    __slots__ = ("__weakref__", "hold")

    hold: Any  # a `Hold`; None: not yet

    def __init__(self) -> None:
        self.hold = None


class Extensions:
    """The commands that prolong one fixed lease. The mutex of the holds serialises the calls."""

    def __init__(self) -> None:
        #: Until when the masters were told to keep the lease.
        self.promised = 0.0
        #: The ttls of the commands that are under way.
        self.under_way: list[float] = []

    def promise(self, lease: Lease, now: float, ttl: float) -> float:
        """The ttl of a command that prolongs the lease to ``ttl`` seconds from now, or longer.

        Never less than an earlier command has, which may arrive first: it would shorten a lease that its
        owner takes for longer.
        """
        self.promised = max(self.promised, lease.valid_until + drift(lease.ttl), now + ttl)
        return self.promised - now


#: By hold, of which locks with one token share one.
EXTENSIONS: weakref.WeakKeyDictionary[RenewalState, Extensions] = weakref.WeakKeyDictionary()


class BaseLock:
    """The part that threads and tasks share. A subclass of it belongs to one client."""

    client: Any

    def __init__(
        self,
        redis: Any,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        #: ``local.token`` is the token of the hold of this thread (``thread_local=False``: of this lock).
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None

    @property
    def _name(self) -> str:
        return self.name.decode() if isinstance(self.name, bytes) else self.name

    def _options(self) -> LockOptions:
        name, timeout = self._name, self.timeout
        if not timeout:
            lock = self.client.lock(name)
        elif timeout <= self.client._options.max_ttl:
            lock = self.client.lock(name, ttl=timeout, renew=False, on_lost=_reported)
        else:
            lock = self.client.lock(name, max_hold=timeout)
        options: LockOptions = lock._options
        return options

    def _acquire_gen(
        self,
        engine: Engine,
        sleep: float | None,
        blocking: bool | None,
        blocking_timeout: float | None,
        token: str | bytes | None,
    ) -> WaitGenerator[bool]:
        sleep = self.sleep if sleep is None else sleep
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        blocks = self.blocking if blocking is None else blocking
        until = FOR_EVER
        if not blocks:
            until = AT_ONCE
        elif limit is not None:
            # The instant of redis-py's last try: it starts no pause that would end behind the limit.
            last = (math.ceil(limit / sleep) - 1) * sleep if sleep > 0 else limit
            until = engine.clock() + last if last > 0 else AT_ONCE
        before, owner, name = self._owner, Owner(), self._name  # the function must not keep this lock
        key = OwnerKey(engine.key().label, weakref.ref(owner, lambda _: _owner_ended(engine, key, name)))
        try:
            if not (yield from contend(engine, engine.contender(key, self._options(), until))):
                return False
            owner.hold = hold = engine.holds.find(key, self._name)
            if hold is None:
                raise LockNotOwnedError(self._name, "a signal handler ended it")
            given = hold.owner if token is None else token
            if before is not None and before.hold in engine.holds:
                engine.holds.give_up(before.hold)  # its lease is over, or this acquire would have waited
            self.local.owner, self.local.token = owner, given.encode() if isinstance(given, str) else given
            return True
        except BaseException:
            # Ctrl-C after the grant: the caller would not know that it has the lock.
            if (hold := engine.holds.find(key, self._name)) is not None:
                engine.holds.give_up(hold)
            raise

    @property
    def _owner(self) -> Owner | None:
        return getattr(self.local, "owner", None)

    def _drop(self, before: Owner | None) -> None:
        """Give back an acquire whose `with` an interrupt ended: nothing would release it."""
        owner, engine = self._owner, self.client._engine()
        if owner is not None and owner is not before and owner.hold in engine.holds:
            engine.holds.give_up(owner.hold)

    def _hold(self, engine: Engine, message: str) -> Hold:
        """The hold of this lock. Raises `LockError` without one, `LockNotOwnedError` if it is not here."""
        token = getattr(self.local, "token", None)
        if token is None:
            raise LockError(message, self._name)
        if (owner := self._owner) is not None and owner.hold in engine.holds:
            return owner.hold  # type: ignore[no-any-return]
        for hold in engine.holds:  # the token of another `Lock` of this process
            if hold.name == self._name and hold.owner.encode() == token:
                return hold
        raise LockNotOwnedError(self._name, "this process does not hold it")

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        owner = self._owner
        try:
            yield from engine.release_gen(self._hold(engine, NOT_OWNED))
        finally:
            # Another thread or task may have got the lock meanwhile. After Ctrl-C this one may still hold it.
            if self._owner is owner and (owner is None or owner.hold not in engine.holds):
                if owner is not None:
                    owner.hold.owner_key.alive = bool  # no callback, in which Ctrl-C would be lost
                self.local.owner = self.local.token = None

    def _extend_gen(
        self, engine: Engine, hold: Hold, seconds: float, *, added: bool
    ) -> WaitGenerator[Literal[True]]:
        now, lease = engine.holds.hear(hold), hold.lease
        extensions = EXTENSIONS.setdefault(hold.renewal, Extensions())
        with engine.holds.mutex:
            if hold not in engine.holds:
                raise NotHeldError(hold.name, engine.holds.holder(hold.name))
            if lease.update(now) is LeaseState.LOST:
                raise LeaseLostError(hold.name, hold.reason)
            options, held = hold.options, now - hold.acquired_at
            if added:
                # The lease on the masters is a drift longer than the validity, and may run behind the limit.
                # Its command was rounded up to a whole millisecond, as this one will be.
                rest_s = extensions.promise(lease, now, 0.0) - 0.001
                seconds += rest_s if options.max_hold is None else max(options.max_hold - held, rest_s)
            if options.renew or seconds > self.client._options.max_ttl:
                max_hold = max(options.max_hold or 0.0, held + seconds)
                hold.options = replace(options, renew=True, max_hold=max_hold)
                if not options.renew:
                    # Its renewals must not shorten it, and have to fit into it: it may be nearly over.
                    ttl = max(options.lease.ttl, self.client._options.ttl)
                    lease.ttl = extensions.promise(lease, now, 0.0 if extensions.under_way else ttl)
                hold.renewal.stopped = None
                engine.watchdog.watch(hold)
                return True
            ttl = extensions.promise(lease, now, seconds)
            # Those commands may be sent behind this one: then the masters keep the lease no longer.
            believed = min([ttl, *extensions.under_way])
            extensions.under_way.append(ttl)
        try:
            yield from _prolong_gen(engine, hold, now, ttl, believed)
        finally:
            with engine.holds.mutex:
                extensions.under_way.remove(ttl)
        return True

    def _extended(self, doing: str) -> tuple[Engine, Hold]:
        engine = self.client._engine()
        hold = self._hold(engine, f"Cannot {doing} an unlocked lock")
        if self.timeout is None:
            raise LockError(f"Cannot {doing} a lock with no timeout", self._name)
        return engine, hold

    def _is_owned(self) -> bool:
        engine = self.client._engine()
        try:
            return bool(engine.holds.remaining(self._hold(engine, NOT_OWNED)) > 0.0)
        except RLockError:
            return False

    def _locked_gen(self, engine: Engine) -> WaitGenerator[bool]:
        return locked(engine.masters, self._name, self._options().lease.request_timeout)

    def _translated(self, error: RLockError) -> RLockError:
        """The error for users of redis-py's classes."""
        if isinstance(error, QuorumUnreachableError):
            return LockUnreachableError(error.name, error.quorum, error.answered, error.faults)
        if isinstance(error, NotHeldError):
            reason = error.reason if isinstance(error, LeaseLostError) else "it was released meanwhile"
            return LockNotOwnedError(self._name, reason)
        return LockError(str(error), self._name)


def _prolong_gen(
    engine: Engine, hold: Hold, began: float, ttl: float, believed: float
) -> WaitGenerator[None]:
    """Prolong a fixed lease to ``ttl`` seconds from ``began``; its owner counts on ``believed`` seconds.

    Not one that the watchdog renews: the next renewal could shorten it on the masters. Raises
    `LeaseLostError` if it is lost, `QuorumUnreachableError` if no quorum prolonged it in time, or denied it.
    """
    context, leases = engine.context, [(hold.name, hold.owner, hold.count, hold.token)]
    command = commands.renew(lease_ms(ttl), leases, guarded=context.guard.on)
    timeout = hold.options.lease.request_timeout
    ballot = yield from engine.masters.call(Request(command, timeout, Settle.WON_OR_ALL))
    votes, now = LockVotes(ballot, 0), engine.clock()
    # Nobody puts a fixed lease back, so a key that is absent was removed by an operator.
    event = votes.event(hold.lease.valid_until, now, context.guard.max_ttl, (), shared=True)
    if event is LeaseEvent.FAILED:
        raise unreachable(context, hold.name, ballot)
    with engine.holds.mutex:
        disowned = event is LeaseEvent.DISOWNED
        if not disowned:
            hold.lease.renewed(began, engine.clock(), believed)
        elif hold in engine.holds:  # a release at the same time ended it: that is no loss
            hold.lease.on(event, DISOWNED)
        state = hold.lease.update(engine.clock())
    if state is LeaseState.LOST:
        engine.watchdog.report_loss(hold)
    if state is LeaseState.LOST or disowned:
        raise LeaseLostError(hold.name, hold.reason)


def _owner_ended(engine: Engine, key: OwnerKey, name: str) -> None:
    """Drop a hold whose loss was reported. Otherwise it would stay for ever: nobody can release it."""
    hold = engine.holds.find(key, name)
    if hold is not None and hold.report.end_reported and engine.pid == os.getpid():
        with engine.holds.mutex:
            engine.holds.remove(hold)


def _reported(_: LeaseLostError) -> None:
    """Without a callback the watchdog would not report the end of a fixed lease."""
