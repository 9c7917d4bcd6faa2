"""The watchdog of the asyncio driver: a task, while something is held."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence

from .._client import watchdog
from ..clock import Clock
from ..errors import LeaseLostError, RLockError
from ..procedures.port import WaitGenerator
from ..procedures.renew import Renewal, Round
from ..rules.holds import Hold, Holds
from .runtime import Parker, run

log = logging.getLogger("rlock")

#: How often a watchdog that was cancelled looks whether it is still needed.
LAST_LOOKS_S = 0.02
#: A renewal that comes so much too late, in seconds and in parts of its ttl, is worth a warning.
LATE_S, LATE_PART = 0.25, 1 / 10


class Watchdog(watchdog.Watchdog):
    """Renews in a task of its own.

    A cancellation does not end it while a task that still runs holds something: who cancels all tasks to
    shut a program down wants them to clean up under their locks. ``letting_go`` releases, then, what tasks
    that have ended left behind.
    """

    def __init__(
        self,
        holds: Holds,
        mutex: threading.Lock,
        clock: Clock,
        renewing: Callable[[Sequence[Hold]], WaitGenerator[Round]],
        healing: Callable[[Round, float], WaitGenerator[list[Renewal]]],
        letting_go: Callable[[], WaitGenerator[None]],
    ) -> None:
        super().__init__(holds, mutex, clock, renewing, healing)
        self._loop = asyncio.get_running_loop()
        self._letting_go = letting_go
        self._parker = Parker()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        #: The event loop keeps no task alive.
        self._calls: set[asyncio.Future[object]] = set()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._cancelled = False
            # Not by the loop's factory: an eager one would run it here, into the mutex that we have.
            self._task = asyncio.Task(self._run(), loop=self._loop, name="rlock-watchdog")

    def _stir(self) -> None:
        self._parker.wake()

    def stop(self) -> None:
        """End the task."""
        self._closed = True
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()

    # -- the task ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        due: Sequence[Hold] | None = ()
        while due is not None:
            try:
                with self._mutex:
                    due = self._next()
                if due:
                    self._look_at_the_loop(due)
                    await run(self._looking_after(due))
                elif due is not None:
                    await run(self._parker.park(self._pause()))
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
            if self._cancelled and not any(hold.owner_key.alive for hold in self._holds):
                try:
                    await run(self._letting_go())
                except RLockError as error:
                    log.debug("nothing to let go: %s", error)  # the client is being closed
                # A lock that came while we waited counts on us.
                if not any(hold.owner_key.alive for hold in self._holds):
                    return

    def _pause(self) -> float:
        pause = self._wake_at - self._clock()
        return min(pause, LAST_LOOKS_S) if self._cancelled else pause

    def _look_at_the_loop(self, due: Sequence[Hold]) -> None:
        """Say so if the event loop did not run: what held it up may cost the next lease."""
        first = min(due, key=lambda hold: hold.renew_at)
        late = self._clock() - first.renew_at
        if late > max(LATE_S, LATE_PART * first.lease.ttl):
            log.warning(
                "lock %r is renewed %.1f s late: the event loop did not run; a coroutine that blocks for "
                "longer than the lease of %g s loses its locks",
                first.name,
                late,
                first.lease.ttl,
            )

    def _connect_options(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        # Not here: it must not stop the renewal of other locks when it raises.
        self._loop.call_soon(self._tell, on_lost, error)

    def _tell(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        try:
            result = on_lost(error)
            if inspect.isawaitable(result):
                call = asyncio.ensure_future(_to_the_end(result, error))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)
        except Exception:
            log.exception("on_lost of lock %r raised", error.name)


async def _to_the_end(call: Awaitable[object], error: LeaseLostError) -> object:
    try:
        return await call
    except Exception:
        log.exception("on_lost of lock %r raised", error.name)
        return None
