"""The watchdog of the asyncio driver: a task that runs while something is held."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence

from .._client import watchdog
from .._client.engine import Engine
from ..errors import LeaseLostError, RLockError
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold
from .runtime import Parker, run

log = logging.getLogger("rlock")

#: How often a cancelled watchdog checks whether it is still needed.
CANCELLED_POLL_S = 0.02
#: A renewal is reported as late after this many seconds, or this part of its ttl, whichever is more.
LATE_S, LATE_PART = 0.25, 1 / 10


class Watchdog(watchdog.Watchdog):
    """Renews in a task of its own.

    A cancellation does not end it while a running task holds something. A program that cancels all its tasks
    wants them to clean up under their locks. Then ``letting_go`` releases the locks of ended tasks.
    """

    def __init__(self, engine: Engine, letting_go: Callable[[], WaitGenerator[None]]) -> None:
        super().__init__(engine)
        self._loop = asyncio.get_running_loop()
        self._letting_go = letting_go
        self._parker = Parker()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        #: Coroutines of `on_lost`: the event loop keeps only weak references to its tasks.
        self._callbacks: set[asyncio.Future[None]] = set()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._cancelled = False
            # Not by the loop's task factory: an eager one would run the task here, where the mutex is held.
            self._task = asyncio.Task(self._run(), loop=self._loop, name="rlock-watchdog")

    def _wake(self) -> None:
        self._parker.wake()

    def stop(self) -> None:
        self._closed = True
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()

    async def _run(self) -> None:
        due: Sequence[Hold] | None = ()
        while due is not None:
            try:
                with self._mutex:
                    due = self._take_due()
                if due:
                    self._warn_if_late(due)
                    await run(self._look_after(due))
                elif due is not None:
                    pause = self._wake_at - self._clock()
                    if self._cancelled:
                        pause = min(pause, CANCELLED_POLL_S)
                    await run(self._parker.park(pause))
            except asyncio.CancelledError:
                self._try_again(due or ())
                if self._closed:
                    raise
                self._cancelled = True
            except RLockError as error:
                log.debug("no renewal: %s", error)  # the client is being closed
            except Exception:
                log.exception("a renewal round failed; it is tried again")
                self._try_again(due or ())
            if self._cancelled and not self._held_by_running_task():
                try:
                    await run(self._letting_go())
                except RLockError as error:
                    log.debug("nothing to let go: %s", error)  # the client is being closed
                # Asked again: a lock that was acquired during that wait needs this watchdog.
                if not self._held_by_running_task():
                    return

    def _held_by_running_task(self) -> bool:
        return any(hold.owner_key.alive for hold in self._holds)

    def _warn_if_late(self, due: Sequence[Hold]) -> None:
        """Warn if the event loop did not run in time: the next time it may cost the lease."""
        first = min(due, key=lambda hold: hold.renewal.due_at)
        late = self._clock() - first.renewal.due_at
        if late > max(LATE_S, LATE_PART * first.lease.ttl):
            log.warning(
                "lock %r is renewed %.1f s late: the event loop did not run; a coroutine that blocks for "
                "longer than the lease of %g s loses its locks",
                first.name,
                late,
                first.lease.ttl,
            )

    def _call_on_lost(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        # Not here: if it raises, it would end the renewal of other locks.
        self._loop.call_soon(self._run_callback, on_lost, error)

    def _run_callback(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        try:
            result = on_lost(error)
            if inspect.isawaitable(result):
                callback = asyncio.ensure_future(_finish(result, error))
                self._callbacks.add(callback)
                callback.add_done_callback(self._callbacks.discard)
        except Exception:
            log.exception("on_lost of lock %r raised", error.name)


async def _finish(callback: Awaitable[object], error: LeaseLostError) -> None:
    try:
        await callback
    except Exception:
        log.exception("on_lost of lock %r raised", error.name)
