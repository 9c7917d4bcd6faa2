"""The engine of the asyncio driver: owners are tasks."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from .._client import engine
from .._client.engine import client_label
from ..clock import Clock
from ..events import log
from ..procedures.port import T, WaitGenerator
from ..rules.holds import Hold, OwnerKey
from ..rules.options import ClientOptions
from ..rules.timing import LINGER_S
from .connections import Connections, Endpoint
from .runtime import Runtime, run
from .watchdog import Watchdog


class Engine(engine.Engine):
    watchdog: Watchdog

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions, clock: Clock) -> None:
        super().__init__(endpoints, options, clock, Runtime())
        self._compose(Connections, partial(Watchdog, release_rest=self._let_go))
        self._dropped = False
        self._keys: weakref.WeakKeyDictionary[asyncio.Task[object], OwnerKey] = weakref.WeakKeyDictionary()

    def key(self) -> OwnerKey:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task is running: a lock of rlock.asyncio is held by a task")
        key = self._keys.get(task)
        if key is None:
            key = self._keys[task] = OwnerKey(client_label(task.get_name()), _running(task))
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

    def _let_go(self) -> WaitGenerator[None]:
        """Release the locks of ended tasks: the event loop is being shut down."""
        for hold in self.holds:
            if not hold.owner_key.alive():
                log.warning("lock %r was still held by a task that has ended; it is released", hold.name)
                self.holds.give_up(hold)
        yield from self.masters.drain()


def _running(task: asyncio.Task[object]) -> Callable[[], bool]:
    there = weakref.ref(task)
    return lambda: (task := there()) is not None and not task.done()
