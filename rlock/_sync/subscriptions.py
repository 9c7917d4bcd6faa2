"""Subscriptions of threads: one of the waiting threads, the reader, reads for all.

So a single waiter gets its message without a thread switch. Twice a second a daemon thread ends unused
subscriptions, and reads if no thread waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import hiredis

from .._client import subscriptions
from .._client.engine import Engine
from .._client.notifications import Inbox
from .._client.subscriptions import LOOK_S
from ..procedures.contender import Contender, LocalGrant
from ..procedures.port import WaitGenerator
from .connection import SocketConnection
from .connections import Connections
from .endpoints import Endpoint
from .runtime import Parker

log = logging.getLogger("rlock")

#: How long a follower trusts that somebody reads for it.
TRUST_S = 1.0


class Subscriptions(subscriptions.Subscriptions[SocketConnection]):
    """The subscriber connections of one client in one process. Thread-safe."""

    _connections: Connections

    def __init__(self, engine: Engine, endpoints: Sequence[Endpoint], request_timeout: float) -> None:
        super().__init__(engine)
        context = engine.context
        self._connections = Connections(
            endpoints,
            context,
            engine.runtime,
            self._mutex,
            self._welcome,
            timeout=request_timeout,
            subscriber=True,
        )
        #: The inbox whose thread reads for all. Others check its `asleep`: Ctrl-C may have ended that thread.
        self._reader: Inbox | None = None
        self._thread: threading.Thread | None = None
        self._end = Parker()

    def hand_over(self, contender: Contender, grant: LocalGrant) -> bool:
        given = super().hand_over(contender, grant)
        with self._mutex:
            reader = self._reader
            if given and reader is not None and reader is contender.inbox and not self._connections.closed:
                self._connections.wake()  # it waits for the masters' sockets
        return given

    def _read_until(self, inbox: Inbox, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        until = self._context.clock() + timeout
        inbox.asleep = True
        try:
            while True:
                with self._mutex:
                    now = self._context.clock()
                    if done() or now >= until or self._connections.closed:
                        return
                    reader = self._reader
                    reads = reader is None or reader is inbox or not reader.asleep
                    if reads:
                        self._reader = inbox
                        if not self._connections.whole:
                            self._connections.connect_due()
                        until_due = min(until, self._due())
                if reads:
                    self._take_in(self._connections.poll(until_due - now))
                else:
                    yield from inbox.parker.park(min(until - now, TRUST_S))
        finally:
            inbox.asleep = False
            with self._mutex:
                # None: `_appoint` has woken this thread to be the reader, so another one must be woken now.
                if self._reader is inbox or self._reader is None:
                    self._reader = None
                    self._appoint()
                    if self._connections.closed:
                        self._connections.close_wake_pipe()

    def _appoint(self) -> None:
        """Wake another waiter to be the reader."""
        for found in self._by_name.values():
            for inbox in found.inboxes:
                if inbox.asleep:
                    inbox.parker.wake()
                    return

    def _take_in(self, events: Sequence[tuple[int, int]]) -> None:
        with self._mutex:
            for fd, event in events:
                self._serve(fd, event)
            self._wake_partial()
        if self._unclaimed:
            self._pass_on_unclaimed()

    def _run(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._keep_house, name="rlock-listener", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.warning("nobody ends the subscriptions: %s", error)
                return
            self._thread = thread

    def _keep_house(self) -> None:
        try:
            while True:
                with self._mutex:
                    if not self._tidy():
                        # With the mutex: otherwise a waiter that comes now would start no thread.
                        self._thread = None
                        return
                    reader = self._reader
                    nobody = reader is None or not reader.asleep
                if nobody:
                    self._take_in(self._connections.poll(0.0))
                self._end.block(LOOK_S)
        except BaseException:
            log.exception("the listener thread failed; it is started again with the next waiter")
            raise
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():
                    self._thread = None

    # -- connections; with the mutex held ----------------------------------------------------------

    def _serve(self, fd: int, event: int) -> None:
        try:
            served = self._connections.serve(fd, event)
            if served is None:
                return
            server, connection = served
            self._take(server, connection, connection.fetch())
            if connection.ended and server.connection is connection:
                self._drop(server, "the server closed the connection")
        except (OSError, hiredis.HiredisError) as error:
            self._drop_fd(fd, str(error) or type(error).__name__)
        except BaseException:
            # Ctrl-C may have lost a message. A new subscription makes all waiters look again.
            self._drop_fd(fd, "interrupted")
            raise

    def _drop_fd(self, fd: int, why: str) -> None:
        server = self._connections.by_fd.get(fd)
        if server is not None:
            self._drop(server, why)

    def close(self) -> None:
        super().close()
        with self._mutex:
            thread = self._thread
            if self._reader is None:
                self._connections.close_wake_pipe()
            self._end.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
