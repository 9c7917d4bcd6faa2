"""Subscriptions of an event loop: messages are read as soon as they arrive."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import hiredis

from .._client import subscriptions
from .._client.connections import MasterConnection
from .._client.engine import Engine
from .._client.notifications import Inbox
from .._client.subscriptions import LOOK_S
from ..procedures.port import WaitGenerator
from .connection import StreamConnection
from .connections import Connections
from .endpoints import Endpoint


class Subscriptions(subscriptions.Subscriptions[StreamConnection]):
    """The subscriber connections of one client in one event loop."""

    def __init__(self, engine: Engine, endpoints: Sequence[Endpoint], request_timeout: float) -> None:
        super().__init__(engine)
        context = engine.context
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(
            endpoints,
            context,
            engine.runtime,
            self._mutex,
            self._welcome,
            timeout=request_timeout,
            subscriber=True,
            on_arrival=self._arrived,
            on_change=self._changed,
        )
        self._look_timer: asyncio.TimerHandle | None = None
        self._connect_timer: asyncio.TimerHandle | None = None

    def _read_until(self, inbox: Inbox, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        until = self._context.clock() + timeout
        inbox.asleep = True
        try:
            while not done() and not self._connections.closed and (now := self._context.clock()) < until:
                yield from inbox.parker.park(min(until, inbox.deadline) - now)
                with self._mutex:
                    self._wake_partial()
        finally:
            inbox.asleep = False

    def _wait_for_more(self, inbox: Inbox, seconds: float) -> None:
        super()._wait_for_more(inbox, seconds)
        inbox.parker.wake()  # it has to wake up sooner

    def _arrived(
        self, server: MasterConnection[StreamConnection], connection: StreamConnection, data: bytes
    ) -> None:
        with self._mutex:
            try:
                self._take(server, connection, data)
                if connection.ended and server.connection is connection:
                    self._drop(server, "the server closed the connection")
            except (OSError, hiredis.HiredisError) as error:
                self._drop(server, str(error) or type(error).__name__)
        if self._unclaimed:
            self._pass_on_unclaimed()

    def _changed(self) -> None:
        """Wake waiters after a change of connections: no further confirmation may be possible."""
        for found in self._by_name.values():
            for inbox in found.inboxes:
                inbox.parker.wake()
        self._connect_later()

    def _drop(self, server: MasterConnection[StreamConnection], why: str) -> None:
        super()._drop(server, why)
        self._connect_later()

    def _connect_later(self) -> None:
        """Connect to masters again when it is time, while there are subscriptions."""
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None
        due_at = self._connections.next_probe()
        if self._by_name and not self._connections.closed and due_at < math.inf:
            self._connect_timer = self._loop.call_later(
                max(0.0, due_at - self._context.clock()), self._connect
            )

    def _connect(self) -> None:
        self._connect_timer = None
        with self._mutex:
            if self._by_name and not self._connections.closed:
                self._connections.connect_due()

    def _run(self) -> None:
        if self._look_timer is None:
            self._look_timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        with self._mutex:
            needed = self._tidy()
            self._look_timer = self._loop.call_later(LOOK_S, self._look) if needed else None
        self._pass_on_unclaimed()

    def close(self) -> None:
        super().close()
        for timer in (self._look_timer, self._connect_timer):
            if timer is not None:
                timer.cancel()
