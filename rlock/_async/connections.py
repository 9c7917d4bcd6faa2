"""The roster of the asyncio driver: links call when something has arrived, tasks dial."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from .._client import connections
from .._client.connections import MasterConnection
from .._client.runtime import ParkingLot
from ..clock import Clock
from ..procedures.port import WaitGenerator
from .connection import StreamConnection
from .endpoints import Endpoint
from .runtime import Runtime


class Connections(connections.Connections[StreamConnection]):
    """``on_arrival``: a link has something to read, or has ended; ``on_change``: a dial has ended."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[MasterConnection[StreamConnection], StreamConnection], None],
        on_arrival: Callable[[MasterConnection[StreamConnection], StreamConnection, bytes], None],
        on_change: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        super().__init__(
            endpoints,
            mutex,
            clock,
            random,
            on_link,
            **options,
        )
        self._on_arrival = on_arrival
        self._on_change = on_change
        self._changed = ParkingLot(mutex, clock, Runtime())
        #: The event loop keeps no task alive.
        self._connecting_tasks: set[asyncio.Task[None]] = set()

    def _register(self, server: MasterConnection[StreamConnection], connection: StreamConnection) -> None:
        connection.arrived = partial(self._on_arrival, server, connection)
        if connection.ended:
            # Between the greeting and now; not at once, because the caller has the mutex.
            asyncio.get_running_loop().call_soon(connection.arrived, b"")

    def _unregister(self, connection: StreamConnection) -> None:
        connection.arrived = None

    # -- connecting --------------------------------------------------------------------------------

    def _until(self, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        yield from self._changed.wait_until(done, timeout)

    def _tell(self) -> None:
        self._changed.wake_all()
        self._on_change()

    def _start(self, server: MasterConnection[StreamConnection]) -> None:
        loop = asyncio.get_running_loop()
        # Not by the loop's factory: an eager one would run it here, into the mutex that the caller has.
        task = asyncio.Task(self._connect_in_background(server), loop=loop, name="rlock-dial")
        self._connecting_tasks.add(task)
        task.add_done_callback(partial(self._ended, server))

    def _ended(self, server: MasterConnection[StreamConnection], task: asyncio.Task[None]) -> None:
        self._connecting_tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            # No fault of the master's; and it would never be dialled again.
            server.is_connecting = False
            self._tell()
            if not self.closed and self._clock() < server.wanted_until:
                # It is owed something, and nobody else may dial it. By a timer: no task may outlive its loop.
                pause = max(0.0, server.probe_at - self._clock()) + 0.01
                task.get_loop().call_later(pause, self._connect_again)

    def _connect_again(self) -> None:
        with self._mutex:
            if not self.closed:
                self.connect_due()

    async def _connect_in_background(self, server: MasterConnection[StreamConnection]) -> None:
        """Dial once; or, if the master is owed something, until that is over."""
        while (pause := await self._connect(server)) is not None:
            await asyncio.sleep(pause)
            if not self._may_reconnect(server):
                return

    async def _connect(self, server: MasterConnection[StreamConnection]) -> float | None:
        outcome: StreamConnection | Exception
        call = self._connect_options(server)
        try:
            outcome = await server.endpoint.connect_async(call)
        except Exception as error:  # a fault, no descriptor, no memory: that master has no vote
            outcome = error
        with self._mutex:
            pause = self._connected(server, call, outcome)
        self._tell_news()
        return pause

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all links for good, and end the dials."""
        super().close()
        for task in self._connecting_tasks:
            task.cancel()
