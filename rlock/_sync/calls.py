"""The fan-out of the blocking driver: of the threads that wait for a round, one reads for all.

The caller writes its command to every master and then waits, with no thread in between. The one that reads
(the leader) hands that role on when its own round is settled.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Sequence

import hiredis

from .._client import calls
from .._client.pending import PendingCall
from .._client.runtime import NO_WAIT
from ..errors import RLockError
from ..model import Fault, FaultKind
from ..procedures.port import ClientContext, WaitGenerator
from .connection import SocketConnection
from .connections import Connections
from .endpoints import Endpoint
from .runtime import Parker, Runtime


class Calls(calls.Calls[SocketConnection]):
    """The command connections of one client in one process. Thread-safe."""

    _connections: Connections

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
            timeout=request_timeout,
            guarded=context.guard.on,
            news=context.news,
        )
        #: The round whose thread reads for all. It may have been interrupted on the way out, so others
        #: go by whether it is over, not by its word.
        self._leader: PendingCall | None = None
        self._followers: deque[PendingCall] = deque()
        #: For so long the others trust that a leader does its work.
        self._patience = request_timeout / 4

    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        """Wait until the round is settled or its time is over, leading or following.

        Interrupts may come between any two lines, so nothing here relies on a `finally` having run: a
        leader whose round is over is none, and followers look after a while even if nobody wakes them.
        """
        ballot = call.ballot
        try:
            if self._leader is call and not ballot.settled:
                self._lead(call)
            while not ballot.settled:
                parker = self._join(call)
                if parker is None:
                    self._lead(call)
                else:
                    yield from parker.park(min(call.deadline - self._clock(), self._patience))
                # Not before: who was kept from running until its time was over has answers to read.
                if not ballot.settled and self._clock() >= call.deadline:
                    break
        finally:
            call.over = True
            # Misses nobody: who follows has seen, with the mutex, a leader whose round was not over.
            if self._leader is call or self._followers or self._connections.closed:
                self._quit(call)
        self._news.tell()
        yield from NO_WAIT

    def _sent(self, call: PendingCall) -> None:
        if self._leader is None:
            self._leader = call

    def _join(self, call: PendingCall) -> Parker | None:
        """What to wait for as a follower; None: this thread leads."""
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
            parker = call.parker = Parker()
            if call not in self._followers:
                self._followers.append(call)
            return parker

    def _quit(self, call: PendingCall) -> None:
        with self._mutex:
            if call in self._followers:
                self._followers.remove(call)
            if self._leader is call or self._leader is None:
                self._leader = None
                if self._followers:
                    # It was this thread's turn to read for the others: another one goes on.
                    self._wake(self._followers[0])
                if self._connections.closed:
                    self._connections.close_wake_pipe()

    def _lead(self, call: PendingCall) -> None:
        """Read for everybody until this round is settled or out of time."""
        ballot, connections, patience = call.ballot, self._connections, self._patience
        now = self._clock()
        while True:
            left = call.deadline - now
            # Also when the time is over: a thread that was kept from running has answers to read.
            events = connections.poll(patience if left > patience else left)
            with self._mutex:
                for fd, event in events:
                    self._serve(fd, event)
                now = self._clock()
                if now >= self._look_at or left <= 0:
                    self._expire(now)
                if ballot.settled and not self._followers:
                    self._leader = None
                    return
                if ballot.settled or connections.closed or left <= 0:
                    return

    def _wake(self, call: PendingCall) -> None:
        if self._followers and call in self._followers:
            self._followers.remove(call)
            if call.parker is not None:
                call.parker.wake()

    # -- one connection; all with the mutex held ---------------------------------------------------

    def _serve(self, fd: int, event: int) -> None:
        try:
            server = self._connections.by_fd.get(fd)
            if event != select.POLLIN or server is None or (connection := server.connection) is None:
                served = self._connections.serve(fd, event)
                if served is None:
                    return
                server, connection = served
            self._take(server, connection, connection.fetch())
            if connection.ended and server.connection is connection:
                self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))
        except (OSError, hiredis.HiredisError) as error:
            self._drop_fd(fd, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
        except BaseException:
            self._drop_fd(fd, Fault(FaultKind.BROKEN, "interrupted"))
            raise

    def _drop_fd(self, fd: int, fault: Fault) -> None:
        server = self._connections.by_fd.get(fd)
        if server is not None:
            self._drop(server, fault)

    def _close(self) -> None:
        for call in list(self._followers):
            self._wake(call)
        if self._leader is None:
            self._connections.close_wake_pipe()
