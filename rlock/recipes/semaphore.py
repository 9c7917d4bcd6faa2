"""Semaphore: at most k owners at a time. Permit i of the semaphore `gpu` is the lock `gpu#i`.

So two owners cannot have one permit, by the proof of the lock. A counter on each master with a majority does
not limit: with three masters and two permits, three owners can each have a permit on a majority.

1. One round trip asks for the status of all permits and of the gate, a second one takes a free permit.
2. Without a free permit the caller acquires the gate, the lock `gpu`. All waiters stand in its queue.
3. The owner of the gate subscribes to the channels of all permits, and takes the first one that is free. It
   releases the gate, and the next waiter goes on.

In fair mode a newcomer goes round the gate only if nobody has it and nobody waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._client.engine import Engine
from ..errors import NOT_HELD, LeaseLostError, NotHeldError, OptionsError, QuorumUnreachableError
from ..model import LeaseState, LockStatus
from ..procedures.acquire import AT_ONCE
from ..procedures.contender import Contender
from ..procedures.inspect import told
from ..procedures.port import Request, WaitGenerator
from ..rules import commands
from ..rules.holds import Hold
from ..rules.options import LockOptions
from ..rules.quorum import Settle
from ..rules.timing import EXPIRY_MARGIN_S, poll_wait, unreachable_wait
from .holding import Blocking, ForTasks, Holding, take

#: The owner of the gate waits up to this long after a free permit was taken by another owner.
LOST_RACE_S = 0.02


class Permits(Holding):
    """The part that threads and tasks share."""

    def __init__(
        self,
        client: Any,
        name: str,
        permits: int,
        fair: bool,
        ttl: float | None,
        on_lost: Callable[[LeaseLostError], object] | None,
    ) -> None:
        if not isinstance(permits, int) or isinstance(permits, bool) or permits < 1:
            raise OptionsError(f"permits must be a whole number of 1 or more, not {permits!r}")
        self._gate = client.lock(name, fair=fair, ttl=ttl)
        self._permits = [client.lock(f"{name}#{i}", ttl=ttl, on_lost=on_lost) for i in range(permits)]
        super().__init__(client, name, [self._gate, *self._permits])

    @property
    def name(self) -> str:
        """The name that all users of this semaphore share. It is also the name of the gate's lock."""
        return self._name

    @property
    def permits(self) -> int:
        """How many permits there are."""
        return len(self._permits)

    @property
    def permit(self) -> int | None:
        """The index of the caller's last permit; None: it has none. No network."""
        last = self._last()
        return None if last is None else last[0]

    @property
    def fencing_token(self) -> int:
        """The fencing token of the caller's last permit, see `rlock.RLock.fencing_token`.

        Each permit counts its own tokens: compare tokens of one ``permit`` only.

        :raises LeaseLostError: the caller has no permit.
        """
        return self._held()[1].token

    def is_owned(self) -> bool:
        """Whether the caller's last permit has validity left, at this moment. No network."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds of validity left for the caller's last permit; 0.0 without one. No network."""
        last = self._last()
        return 0.0 if last is None else last[1].lease.remaining(self._client._now())

    def check(self) -> None:
        """Raise `LeaseLostError` unless the caller's last permit has validity left. No network."""
        self._permits[self._held()[0]].check()

    @property
    def lost(self) -> Any:
        """Set when the caller's last permit is lost; see `rlock.RLock.lost`."""
        last = self._last()
        return self._permits[0 if last is None else last[0]].lost

    def _last(self) -> tuple[int, Hold] | None:
        engine: Engine | None = self._client._here()
        if engine is None:
            return None
        holds = [(i, hold) for i, lock in enumerate(self._permits) if (hold := engine.hold(lock.name))]
        return max(holds, key=lambda each: each[1].acquired_at, default=None)

    def _held(self) -> tuple[int, Hold]:
        last = self._last()
        if last is None:
            raise LeaseLostError(self._name, NOT_HELD)
        return last

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        last = self._last()
        if last is None:
            raise NotHeldError(self._name, "")
        yield from engine.release_gen(last[1], 0)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        try:
            gate, *permits = yield from self._statuses(engine)
            waits = self._gate._options.fair and (gate.locked or gate.queue_length)
            if not waits and (yield from self._take_one(engine, permits)):
                return True
        except QuorumUnreachableError:
            if until == AT_ONCE:
                raise
        if until == AT_ONCE:
            return False
        while (yield from take(engine, self._gate._options, until)):
            held = engine.held(self._name)
            listener = Listener(engine, [lock._options for lock in self._permits])
            try:
                got = yield from self._wait_for_one(engine, held, listener, until)
            finally:
                listener.close()
            try:
                yield from engine.release_gen(held, held.count - 1)
            except LeaseLostError:
                pass  # it let no waiter pass, and the permit is a lock of its own
            if got is not None:
                return got
        return False

    def _wait_for_one(
        self, engine: Engine, gate: Hold, listener: Listener, until: float
    ) -> WaitGenerator[bool | None]:
        """Take the first permit that is free. None: the gate was lost meanwhile, so others may be first."""
        random, failures = engine.context.random, 0
        # Before the statuses: otherwise a release in between would send no message here.
        subscribed = yield from listener.subscribe(self._gate._options.lease.request_timeout)
        while gate.lease.state_at(engine.clock()) is not LeaseState.LOST:
            listener.clear()
            statuses: Sequence[LockStatus] = ()
            try:
                statuses = (yield from self._statuses(engine))[1:]
                if (yield from self._take_one(engine, statuses)):
                    return True
                failures = 0
            except QuorumUnreachableError as error:
                failures += 1
                if engine.clock() >= until:
                    raise
                engine.report_failure(error, failures)
            now = engine.clock()
            if now >= until:
                return False
            if failures:
                wait = unreachable_wait(random, failures)
            elif any(not status.locked for status in statuses):
                wait = random.uniform(0.0, LOST_RACE_S)
            else:
                # The permit of a dead owner ends without a message.
                ends = [status.remaining for status in statuses if status.remaining is not None]
                wait = min([poll_wait(random, subscribed=subscribed), *ends]) + EXPIRY_MARGIN_S
            yield from listener.wait(min(now + wait, until))
        return None

    def _statuses(self, engine: Engine) -> WaitGenerator[list[LockStatus]]:
        """The status of the gate and of all permits, in one round trip."""
        context, timeout = engine.context, self._gate._options.lease.request_timeout
        requests = [
            Request(commands.status(lock.name, waiters=1, guarded=context.guard.on), timeout, Settle.VERDICT)
            for lock in self._locks
        ]
        ballots = yield from engine.masters.call_many(requests)
        return [told(context, lock.name, ballot) for lock, ballot in zip(self._locks, ballots, strict=True)]

    def _take_one(self, engine: Engine, statuses: Sequence[LockStatus]) -> WaitGenerator[bool]:
        """Try the permits that may be free, those that certainly are first; each group in random order.

        Otherwise all newcomers would ask for the same permit.
        """
        may_be_free = [
            (not status.free, engine.context.random.random(), lock)
            for status, lock in zip(statuses, self._permits, strict=True)
            if not status.locked and engine.hold(lock.name) is None
        ]
        for _, _, lock in sorted(may_be_free, key=lambda each: each[:2]):
            if (yield from take(engine, lock._options, AT_ONCE)):
                return True
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self._name!r} permits={self.permits}>"


class Semaphore(Permits, Blocking):
    """At most ``permits`` owners at a time, made by ``client.semaphore(name, permits=k)``.

    Not reentrant: each acquire takes another permit. A release gives back the caller's last one. The owner of
    a permit is a thread of a client. Another thread cannot release it.
    """


class AsyncSemaphore(Permits, ForTasks):
    """The same for tasks; see `Semaphore`."""


class Listener:
    """The messages of all permits for the owner of the gate, who sleeps until one of them comes."""

    def __init__(self, engine: Engine, permits: Sequence[LockOptions]) -> None:
        self._engine = engine
        self._notifications = engine.notifications
        self.parker: Any = None
        self.asleep = False
        now = engine.clock()
        self._contenders = [Contender(engine.key(), options, now, now) for options in permits]

    def subscribe(self, timeout: float) -> WaitGenerator[bool]:
        """Subscribe to all permits in one round trip; whether a quorum confirmed each of them in time."""
        for contender in self._contenders:
            contender.take_place(self._engine.context)
            yield from self._notifications.subscribe(contender, 0.0)
            self.parker = self.parker or contender.inbox.parker
            contender.inbox.parker = self.parker
        for contender in self._contenders:
            yield from self._notifications.subscribe(contender, timeout)
        return all(self._notifications.is_subscribed(each.name) for each in self._contenders)

    def wait(self, until: float) -> WaitGenerator[None]:
        """Sleep until an instant, or until a quorum of masters told that a permit is free."""
        yield from self._notifications._read_until(self, self._has_reason, until)  # type: ignore[arg-type]

    @property
    def deadline(self) -> float:
        """The instant at which messages from fewer masters than a quorum wake it, too."""
        return min((float(each.inbox.deadline) for each in self._contenders), default=math.inf)

    def look(self, now: float) -> None:
        """See `Inbox.look`."""
        for contender in self._contenders:
            contender.inbox.look(now)

    def clear(self) -> None:
        """Forget the messages that came until now."""
        for contender in self._contenders:
            contender.inbox.take_reason()

    def close(self) -> None:
        """End the subscriptions. Waits for nothing."""
        for contender in self._contenders:
            self._notifications.unsubscribe(contender, left=True)

    def _has_reason(self) -> bool:
        return any(each.inbox.has_reason() for each in self._contenders)
