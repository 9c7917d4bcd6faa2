"""The calls of threads: of the threads that wait for replies, one reads for all (the leader).

A caller writes its command to every master and waits, with no other thread in between. A leader hands that
role on when its own call is over.
"""

from __future__ import annotations

import select
from collections.abc import Sequence

import hiredis

from .._client import calls
from .._client.pipeline import PendingCall
from .._client.runtime import NO_WAIT, Parker
from ..errors import RLockError
from ..model import Fault, FaultKind
from ..procedures.port import ClientContext, WaitGenerator
from .connection import SocketConnection
from .connections import Connections
from .endpoints import Endpoint
from .runtime import Runtime


class Calls(calls.Calls[SocketConnection]):
    """The command connections of one client in one process. Thread-safe."""

    _connections: Connections

    def __init__(
        self, endpoints: Sequence[Endpoint], context: ClientContext, request_timeout: float, runtime: Runtime
    ) -> None:
        super().__init__(context, request_timeout, runtime)
        self._connections = Connections(
            endpoints, context, runtime, self._mutex, self._on_connect, timeout=request_timeout
        )
        self._leader: PendingCall | None = None

    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        """See `calls.Calls._finish`.

        Ctrl-C may come between any two lines, so no `finally` is sure to run: a leader whose call is over
        counts as none, and the others check after a while even if nobody wakes them.
        """
        ballot = call.ballot
        try:
            while not ballot.settled:
                parker = self._follow(call)
                if parker is None:
                    self._lead(call)
                else:
                    yield from parker.park(min(call.deadline - self._clock(), self._patience))
                # Only now: a thread that was kept from running has to read its replies before it gives up.
                if not ballot.settled and self._clock() >= call.deadline:
                    break
        finally:
            call.over = True
            # No follower is missed: each has seen, under the mutex, a leader whose call was not over.
            if self._leader is call or self._waiting or self._connections.closed:
                self._leave(call)
        self._pending_events.emit()
        yield from NO_WAIT

    def _follow(self, call: PendingCall) -> Parker | None:
        """Where to wait while another thread reads; None: the caller is the leader now."""
        with self._mutex:
            if self._connections.closed:
                raise RLockError("the client was closed")
            leader = self._leader
            if (
                leader is None
                or leader is call
                or leader.over
                or self._clock() > leader.deadline + self._patience
            ):
                self._leader = call
                return None
            parker = call.parker = call.parker or self._runtime.parker()
            self._waiting.add(call)
            return parker

    def _leave(self, call: PendingCall) -> None:
        with self._mutex:
            self._waiting.discard(call)
            if self._leader is call or self._leader is None:
                self._leader = None
                for other in self._waiting:
                    if not other.ballot.settled and other.parker is not None:
                        other.parker.wake()  # it becomes the leader
                        break
                if self._connections.closed:
                    self._connections.close_wake_pipe()

    def _lead(self, call: PendingCall) -> None:
        """Read for all threads until this call is settled or its time is over."""
        now = self._clock()
        while True:
            left = call.deadline - now
            events = self._connections.poll(min(left, self._patience))
            with self._mutex:
                for fd, event in events:
                    self._serve(fd, event)
                now = self._clock()
                if now >= self._look_at or left <= 0:
                    self._drop_stalled(now)
                if call.ballot.settled or left <= 0 or self._connections.closed:
                    if not self._waiting:
                        self._leader = None
                    return

    def _serve(self, fd: int, event: int) -> None:
        try:
            server = self._connections.by_fd.get(fd)
            if event != select.POLLIN or server is None or (connection := server.connection) is None:
                served = self._connections.serve(fd, event)
                if served is None:
                    return
                server, connection = served
            self._receive(server, connection, connection.fetch())
            if connection.ended and server.connection is connection:
                self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))
        except (OSError, hiredis.HiredisError) as error:
            self._drop_fd(fd, error)
        except BaseException as error:
            self._drop_fd(fd, error)
            raise

    def _drop_fd(self, fd: int, error: BaseException) -> None:
        server = self._connections.by_fd.get(fd)
        if server is not None:
            self._drop_broken(server, error)

    def _on_close(self) -> None:
        if self._leader is None:
            self._connections.close_wake_pipe()
