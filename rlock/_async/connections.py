"""The connections of tasks: each calls when something has arrived, and a task makes each attempt."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from .._client import connections
from .._client.connection import MasterConnection
from .._client.runtime import Waiter
from ..procedures.port import WaitGenerator
from .connection import StreamConnection
from .runtime import run

Server = MasterConnection[StreamConnection]


class Connections(connections.Connections[StreamConnection]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: The event loop keeps only weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def read_until(
        self, waiter: Waiter, done: Callable[[], bool], until: float = math.inf
    ) -> WaitGenerator[None]:
        parker = waiter.parker = waiter.parker or self.parker()
        self._sleepers[parker] = None
        try:
            while not done() and not self.closed:
                left = min(until, waiter.deadline) - self._clock()
                if left <= 0:
                    # Replies may have arrived while another task kept the loop from running. It finds them in
                    # its next pass, and reads them in that pass or in the one after it.
                    yield
                    yield
                    return
                woken = yield from parker.park(min(left, self._patience))
                now = self._clock()
                if not woken or now >= self._traffic.look_at:
                    self._traffic.look_at = now + self._patience  # one task looks for all
                    # Another task may have kept the loop from running: the replies that have arrived
                    # meanwhile must be read before a connection counts as overdue.
                    yield
                    yield
                    self._traffic.look(now)
        finally:
            self._sleepers.pop(parker, None)

    def _arrived(self, server: Server, connection: StreamConnection, data: bytes) -> None:
        with self._mutex:
            self.take(server, connection, data)
        self._traffic.after_data()

    def _register(self, server: Server, connection: StreamConnection) -> None:
        connection.arrived = partial(self._arrived, server, connection)
        if connection.ended:
            # It ended after the handshake. Not called at once, because the caller has the mutex.
            asyncio.get_running_loop().call_soon(connection.arrived, b"")

    def _unregister(self, connection: StreamConnection) -> None:
        connection.arrived = None

    def _start(self, server: Server) -> None:
        # Not by the loop's task factory: an eager one would run it here, and dead-lock on the mutex.
        loop = asyncio.get_running_loop()
        task = asyncio.Task(self._connect_in_background(server), loop=loop, name="rlock-dial")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, server))

    async def _connect_in_background(self, server: Server) -> None:
        await run(self._connect_gen(server))

    def _ended(self, server: Server, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._interrupted(server)
            if not self.closed and self._clock() < server.reconnect_until:
                # By a timer, because no task may outlive its loop.
                pause = max(0.0, server.probe_at - self._clock()) + 0.01
                task.get_loop().call_later(pause, self._connect_again)

    def _connect_again(self) -> None:
        with self._mutex:
            if not self.closed:
                self.connect_due()

    def close(self) -> None:
        super().close()
        for task in self._tasks:
            task.cancel()
