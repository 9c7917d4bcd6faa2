"""The fan-out of the asyncio driver: what arrives is read at once, and wakes the task that waits for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import hiredis

from .._client import calls
from .._client.connections import MasterConnection
from .._client.pending import PendingCall
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
            self._mutex,
            context.clock,
            context.random,
            self._welcome,
            self._arrived,
            timeout=request_timeout,
            guarded=context.guard.on,
            news=context.news,
        )
        self._waiting: set[PendingCall] = set()
        self._patience = request_timeout / 4
        #: When those who wait look round, whether or not anything has arrived: one timer for all of them,
        #: since one for each round costs as much as the round.
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
                self._look_round_within(min(left, self._patience))
                woken = yield from parker.park(math.inf)
                if ballot.outstanding and (not woken or self._clock() >= self._look_at):
                    if woken and self._overdue(self._clock()):
                        # Another task may have kept the loop from running since the wake-up: what has
                        # arrived meanwhile has to count.
                        yield
                        yield
                    with self._mutex:
                        self._expire(self._clock())
        finally:
            call.over = True
            self._waiting.discard(call)
        self._news.tell()

    def _look_round_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        # Noted here: uvloop's handle of a time that has passed does not tell when it is due.
        self._timer, self._timer_at = loop.call_at(at, self._look_round), at

    def _look_round(self) -> None:
        self._timer = None
        for call in self._waiting:
            call.parker.expire()

    def _wake(self, call: PendingCall) -> None:
        if call.parker is not None:
            call.parker.wake()

    def _arrived(
        self, server: MasterConnection[StreamConnection], connection: StreamConnection, data: bytes
    ) -> None:
        with self._mutex:
            try:
                self._take(server, connection, data)
                if connection.ended and server.connection is connection:
                    self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))
            except (OSError, hiredis.HiredisError) as error:
                self._drop(server, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
            except BaseException:
                # Ctrl-C between a reply and what it answers: the next one would be read for another command.
                self._drop(server, Fault(FaultKind.BROKEN, "interrupted"))
                raise

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for call in self._waiting:
            self._wake(call)
