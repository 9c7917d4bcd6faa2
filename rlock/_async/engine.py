"""The engine of the asyncio driver: owners are tasks. Its watchdog is a task, too."""

import asyncio
import inspect
import math
import weakref
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from .. import clock
from .._client import engine, watchdog
from .._client.calls import Calls
from .._client.hold_table import HoldTable
from ..errors import LeaseLostError, RLockError
from ..events import log
from ..procedures.port import T, WaitGenerator
from ..rules.holds import Hold, OwnerKey
from ..rules.options import ClientOptions
from ..rules.timing import LINGER_S
from .connections import Connections, Endpoint
from .runtime import Runtime, run

CANCELLED_POLL_S = 0.02  # how often a cancelled watchdog checks whether a running task still holds a lock
#: A renewal is reported as late after this many seconds, or this part of its ttl, whichever is more.
LATE_S, LATE_PART = 0.25, 1 / 10


class Engine(engine.Engine):
    watchdog: "Watchdog"

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions) -> None:
        super().__init__(endpoints, options, clock.now, Runtime())
        self._compose(Connections, Watchdog)
        self._dropped = False
        self._keys: weakref.WeakKeyDictionary[asyncio.Task[object], OwnerKey] = weakref.WeakKeyDictionary()

    def key(self) -> OwnerKey:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task is running: a lock of rlock.asyncio is held by a task")
        key = self._keys.get(task)
        if key is None:
            alive = partial(_running, weakref.ref(task, self.watchdog.task_ended))
            key = self._keys[task] = OwnerKey(engine.client_label(task.get_name()), alive)
        return key

    def hold(self, name: str) -> Hold | None:
        """The calling task's hold, lost or not; None in a callback of the event loop, where no task runs."""
        return None if asyncio.current_task() is None else super().hold(name)

    def _holding(self) -> None:
        if self._dropped and not len(self.holds):
            # Behind the release of the last hold, which is sent after this.
            asyncio.get_running_loop().call_later(LINGER_S, self.drop)

    async def perform(self, procedure: WaitGenerator[T]) -> T:
        return await run(procedure)

    async def close(self) -> None:
        await run(self._close_gen())
        # The event loop closes the sockets in its next turn, and this may be the last thing that it does.
        await asyncio.sleep(0)
        if due := [task for task in self.watchdog.callbacks if task is not asyncio.current_task()]:
            await asyncio.wait(due, timeout=1.0)

    def drop(self) -> None:
        """Close the connections of a client that was collected, unless something is still held."""
        self._dropped = True
        if not len(self.holds):
            self.holds.closed = True
            self.notifications.close()
            self.masters.close()


def _running(task: weakref.ref[asyncio.Task[object]]) -> bool:
    return (there := task()) is not None and not there.done()


class Watchdog(watchdog.Watchdog):
    """Renews in a task of its own.

    `asyncio.run` cancels all tasks when its main task has ended, this one too. The other tasks may still
    clean up under their locks. So a cancelled watchdog goes on renewing while a running task holds a lock.
    Then it releases the locks of the tasks that have ended, and ends.
    """

    _masters: Calls[Any]

    def __init__(self, holds: HoldTable, masters: Calls[Any]) -> None:
        super().__init__(holds, masters)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        #: Coroutines of `on_lost`: the event loop keeps only weak references to its tasks.
        self.callbacks: set[asyncio.Future[None]] = set()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._cancelled = False
            # Not by the loop's task factory: an eager one would run it here, and dead-lock on the mutex.
            self._task = asyncio.Task(self._run(), loop=self._loop, name="rlock-watchdog")

    def task_ended(self, _: object) -> None:
        if len(self._holds) and not self._loop.is_closed():
            # Not in place: the garbage collector may call this in the middle of a change.
            self._loop.call_soon_threadsafe(self.owner_ended)

    def stop(self) -> None:
        self.stopped = True
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await run(self._run_gen())
            except asyncio.CancelledError:
                if self.stopped:
                    raise
                self._cancelled = True
                continue
            if not self._cancelled:
                return
            try:
                await run(self._release_rest())
            except RLockError as error:
                log.debug("nothing was released: %s", error)  # the client is being closed
            # Checked again: otherwise a lock that a task acquired during that wait would not be renewed.
            if not self._held_by_running_task() or self._schedule.next_due() == math.inf:
                return

    def _release_rest(self) -> WaitGenerator[None]:
        for hold in self._holds:
            if not hold.owner_key.alive():
                log.warning("lock %r was still held by a task that has ended; it is released", hold.name)
                self._holds.give_up(hold)
        yield from self._masters.drain()

    def _take_due(self) -> list[Hold] | None:
        if not self._cancelled:
            return super()._take_due()
        if not self._held_by_running_task():
            return None
        due = super()._take_due()
        self._wake_at = min(self._wake_at, self._clock() + CANCELLED_POLL_S)
        return due

    def _held_by_running_task(self) -> bool:
        return any(hold.owner_key.alive() for hold in self._holds)

    def _renew_due(self, due: Sequence[Hold]) -> WaitGenerator[None]:
        first = min(due, key=lambda hold: hold.renewal.due_at)
        late = self._clock() - first.renewal.due_at
        if late > max(LATE_S, LATE_PART * first.lease.ttl):
            # Logged before any loss: a longer delay would cost the lease.
            log.warning(
                "lock %r is renewed %.1f s late: the event loop did not run; a coroutine that blocks for "
                "longer than the lease of %g s loses its locks",
                first.name,
                late,
                first.lease.ttl,
            )
        return super()._renew_due(due)

    def _call_on_lost(self, on_lost: watchdog.OnLost, error: LeaseLostError) -> None:
        # Not here: SystemExit in the callback would end the task that renews the other locks.
        self._loop.call_soon(self._run_callback, on_lost, error)

    def _run_callback(self, on_lost: watchdog.OnLost, error: LeaseLostError) -> None:
        try:
            result = on_lost(error)
            if inspect.isawaitable(result):
                callback = asyncio.ensure_future(_finish(result, error))
                self.callbacks.add(callback)
                callback.add_done_callback(self.callbacks.discard)
        except Exception:
            log.exception("on_lost of lock %r raised", error.name)


async def _finish(callback: Awaitable[object], error: LeaseLostError) -> None:
    try:
        await callback
    except Exception:
        log.exception("on_lost of lock %r raised", error.name)
