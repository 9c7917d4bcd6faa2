"""The calls of tasks: replies are read when they arrive, and wake the task that waits for them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import hiredis

from .._client import calls
from .._client.connections import MasterConnection
from .._client.pipeline import PendingCall
from ..errors import RLockError
from ..model import Fault, FaultKind
from ..procedures.port import ClientContext, WaitGenerator
from .connection import StreamConnection
from .connections import Connections
from .endpoints import Endpoint
from .runtime import Parker, Runtime


class Calls(calls.Calls[StreamConnection]):
    """The command connections of one client in one event loop."""

    def __init__(
        self, endpoints: Sequence[Endpoint], context: ClientContext, request_timeout: float, runtime: Runtime
    ) -> None:
        super().__init__(context, request_timeout, runtime)
        self._connections = Connections(
            endpoints,
            context,
            runtime,
            self._mutex,
            self._on_connect,
            timeout=request_timeout,
            on_arrival=self._arrived,
        )
        #: Wakes all tasks that wait. One timer for all of them: a timer costs as much as a call.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        ballot = call.ballot
        parker = call.parker = Parker()
        self._waiting.add(call)
        try:
            while not ballot.settled:
                if self._connections.closed:
                    raise RLockError("the client was closed")
                left = call.deadline - self._clock()
                if left <= 0:
                    break
                self._wake_all_within(min(left, self._patience))
                woken = yield from parker.park(math.inf)
                if ballot.outstanding and (not woken or self._clock() >= self._look_at):
                    if woken and self._overdue(self._clock()):
                        # Another task may have kept the loop from running since the wake-up: the replies
                        # that have arrived meanwhile must be read first.
                        yield
                        yield
                    with self._mutex:
                        self._drop_stalled(self._clock())
        finally:
            call.over = True
            self._waiting.discard(call)
        self._pending_events.emit()

    def _wake_all_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        # Its time is kept here: uvloop's handle of a past time does not tell it.
        self._timer, self._timer_at = loop.call_at(at, self._wake_all), at

    def _wake_all(self) -> None:
        self._timer = None
        for call in self._waiting:
            if isinstance(call.parker, Parker):
                call.parker.expire()

    def _arrived(
        self, server: MasterConnection[StreamConnection], connection: StreamConnection, data: bytes
    ) -> None:
        with self._mutex:
            try:
                self._receive(server, connection, data)
                if connection.ended and server.connection is connection:
                    self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))
            except (OSError, hiredis.HiredisError) as error:
                self._drop_broken(server, error)
            except BaseException as error:
                self._drop_broken(server, error)
                raise

    def _on_close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
