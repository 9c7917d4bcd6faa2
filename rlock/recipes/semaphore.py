"""Semaphore: at most k owners at a time. Permit i of the semaphore `gpu` is the lock `gpu#i`.

So two owners cannot have one permit, by the proof of the lock. If no permit is free, the caller acquires the
gate, the lock `gpu`, and all waiters stand in its queue. The owner of the gate takes the first free permit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .._client.engine import Engine
from ..base import OnLost
from ..errors import NO_PERMIT, LeaseLostError, NotHeldError, OptionsError, QuorumUnreachableError
from ..model import LeaseState, LockStatus
from ..procedures.acquire import AT_ONCE, time_for
from ..procedures.attempt import take_place
from ..procedures.contender import Contender
from ..procedures.inspect import told, unreachable
from ..procedures.port import Request, WaitGenerator
from ..rules import commands
from ..rules.holds import Hold
from ..rules.quorum import Settle
from ..rules.timing import EXPIRY_MARGIN_S, poll_wait, unreachable_wait
from .holding import Blocking, ForTasks, Holding

MOST_PERMITS = 10_000  # a waiter asks for the status of each, in one round trip
LOST_RACE_S = 0.05  # the longest pause after another owner was faster, or had votes of a minority


class Permits(Holding):
    """The part that threads and tasks share."""

    def __init__(
        self, client: Any, name: str, permits: int, fair: bool, ttl: float | None, on_lost: OnLost
    ) -> None:
        if not isinstance(permits, int) or isinstance(permits, bool) or not 1 <= permits <= MOST_PERMITS:
            raise OptionsError(f"permits must be a whole number from 1 to {MOST_PERMITS}")
        self._gate = client.lock(name, fair=fair, ttl=ttl)
        self._permits = [client.lock(f"{name}#{i}", ttl=ttl, on_lost=on_lost) for i in range(permits)]
        super().__init__(client, [self._gate, *self._permits], f"{name!r} permits={permits}")

    @property
    def permit(self) -> int | None:
        """The index of the caller's last permit; None: it has none. No network."""
        last = self._last()
        return None if last is None else int(last.name.rpartition("#")[2])

    @property
    def fencing_token(self) -> int:
        """The last permit's token, see `rlock.RLock.fencing_token`. Compare tokens of one ``permit`` only.

        :raises LeaseLostError: the caller has no permit.
        """
        return self._present().token

    @property
    def lost(self) -> Any:
        """Set when the caller's last permit is lost; see `rlock.RLock.lost`."""
        return self._needed[0].lost

    def check(self) -> None:
        """Raise `LeaseLostError` unless the last permit has validity left. No network."""
        self._present()
        super().check()

    @property
    def _needed(self) -> Sequence[Any]:
        return [self._permits[self.permit or 0]]

    def _last(self) -> Hold | None:
        permits = [hold for hold in self._holds() if hold.name != self._gate.name]
        return max(permits, key=lambda hold: hold.acquired_at, default=None)

    def _present(self) -> Hold:
        if (last := self._last()) is None:
            raise LeaseLostError(self._gate.name, NO_PERMIT)
        return last

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        if (last := self._last()) is None:
            raise NotHeldError(self._gate.name, "")
        yield from engine.release_gen(last)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        try:
            first, *permits = yield from self._statuses(engine, until)
            queues = self._gate._options.fair and (first.locked or first.queue_length)
            if not queues and (yield from self._take_one(engine, permits)):
                return True
        except QuorumUnreachableError:
            if engine.clock() >= until:
                raise
        got: bool | None = None
        while got is None and until > AT_ONCE and (yield from engine.acquire(self._gate._options, until)):
            gate, listener = engine.held(self._gate.name), _Listener(engine, self._permits)
            try:
                got = yield from self._wait_for_one(engine, listener, until)
            finally:
                listener.close()
            with suppress(LeaseLostError):  # another waiter may overtake, but a permit has its own lease
                yield from engine.release_gen(gate)
        return got is True

    def _wait_for_one(self, engine: Engine, listener: _Listener, until: float) -> WaitGenerator[bool | None]:
        """Take the first permit that is free. None: the gate was lost, so it is another waiter's turn."""
        gate, random, failures = engine.held(self._gate.name), engine.context.random, 0
        yield from listener.subscribe(min(until, engine.clock() + self._gate._options.lease.request_timeout))
        while engine.holds.state(gate) is not LeaseState.LOST:
            # Before the question: otherwise a release in between would send no message here.
            subscribed = all(engine.notifications.is_subscribed(lock.name) for lock in self._permits)
            try:
                permits = (yield from self._statuses(engine, until))[1:]
                if (yield from self._take_one(engine, permits)):
                    return True
                failures = 0
            except QuorumUnreachableError as error:
                failures += 1
                if engine.clock() >= until:
                    raise
                engine.report_failure(error, failures)
            if (now := engine.clock()) >= until:
                return False
            if failures:
                wait = unreachable_wait(random, failures)
            elif any(not permit.locked for permit in permits):
                wait = random.uniform(0.1, 1.0) * LOST_RACE_S
            else:
                # The lease of a dead owner ends without a message.
                ends = [permit.remaining for permit in permits if permit.remaining is not None]
                wait = min([poll_wait(random, subscribed=subscribed), *ends]) + EXPIRY_MARGIN_S
            yield from listener.wait(min(now + wait, until))
        return None

    def _statuses(self, engine: Engine, until: float) -> WaitGenerator[list[LockStatus]]:
        """The status of the gate and of all permits, in one round trip."""
        context, timeout = engine.context, time_for(until - engine.clock(), self._gate._options)
        asked = [commands.status(lock.name, waiters=1, guarded=context.guard.on) for lock in self._locks]
        requests = [Request(command, timeout, Settle.VERDICT) for command in asked]
        ballots = yield from engine.masters.call_many(requests)
        if (least := min(ballots, key=lambda ballot: ballot.answered)).answered < context.quorum:
            raise unreachable(context, self._gate.name, least)
        return [told(context, lock.name, ballot) for lock, ballot in zip(self._locks, ballots, strict=True)]

    def _take_one(self, engine: Engine, statuses: Sequence[LockStatus]) -> WaitGenerator[bool]:
        """Try the permits that may be free, in random order: otherwise all newcomers would ask for the first.

        Permits that certainly are free come first. Raises `QuorumUnreachableError` if one may be free.
        """
        failure: QuorumUnreachableError | None = None
        permits = list(zip(statuses, self._permits, strict=True))
        engine.context.random.shuffle(permits)
        for status, lock in sorted(permits, key=lambda permit: not permit[0].free):
            try:
                if (hold := engine.hold(lock.name)) is not None:
                    # As a nested acquire of a lock. Otherwise the caller would wait for its own release.
                    if engine.holds.state(hold) is LeaseState.LOST:
                        raise LeaseLostError(lock.name, hold.reason)
                    continue
                if not status.locked and (yield from engine.acquire(lock._options, AT_ONCE)):
                    return True
            except QuorumUnreachableError as error:
                failure = error
                if error.answered < error.quorum:
                    break  # no permit can be had: each further one would cost another time-out
        if failure is not None:
            raise failure
        return False


class Semaphore(Permits, Blocking):
    """At most ``permits`` owners at a time, made by ``client.semaphore(name, permits=k)``.

    Not reentrant: each acquire takes another permit. A release gives back the caller's last one. The owner of
    a permit is a thread of a client. Another thread cannot release it.
    """


class AsyncSemaphore(Permits, ForTasks):
    """The same for tasks; see `Semaphore`."""


class _Listener:
    """The messages of all permits, as one inbox: the owner of the gate sleeps until one of them comes."""

    def __init__(self, engine: Engine, permits: Sequence[Any]) -> None:
        self._context, self._notifications = engine.context, engine.notifications
        self.parker: Any = None
        self.asleep = False
        now = engine.clock()
        self._contenders = [Contender(engine.key(), lock._options, now, now) for lock in permits]

    def subscribe(self, until: float) -> WaitGenerator[None]:
        """Subscribe to all permits in one round trip, which ends at the instant ``until``."""
        for contender in self._contenders:
            take_place(self._context, contender)
            yield from self._notifications.subscribe(contender, 0.0)
            # One place to sleep: a message about any permit wakes the owner of the gate.
            self.parker = contender.inbox.parker = self.parker or contender.inbox.parker
        for contender in self._contenders:
            yield from self._notifications.subscribe(contender, until - self._context.clock())

    def wait(self, until: float) -> WaitGenerator[None]:
        """Sleep until an instant, or until a quorum told that a permit is free. Forget all messages then."""
        yield from self._notifications._read_until(self, self._has_reason, until)  # type: ignore[arg-type]
        for contender in self._contenders:
            contender.inbox.take_reason()

    def _has_reason(self) -> bool:
        return any(each.inbox.has_reason() for each in self._contenders)

    @property
    def deadline(self) -> float:
        return min(float(each.inbox.deadline) for each in self._contenders)

    def wake_if_due(self, now: float) -> None:
        for contender in self._contenders:
            contender.inbox.wake_if_due(now)

    def close(self) -> None:
        for contender in self._contenders:
            self._notifications.unsubscribe(contender, withdrawn=True)
