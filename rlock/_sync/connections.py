"""The roster of the blocking driver: one poll for all links, and a short-lived thread for each dial."""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .._client import connections
from .._client.connections import MasterConnection
from .._client.runtime import ParkingLot
from ..clock import Clock
from ..model import Fault
from ..procedures.port import WaitGenerator
from .connection import SocketConnection
from .endpoints import Endpoint
from .runtime import Runtime


class WakePipe:
    """A pipe whose far end is polled with the links, to interrupt a thread that waits for them."""

    __slots__ = ("__weakref__", "_close", "fileno", "write_end")

    def __init__(self) -> None:
        self.fileno, self.write_end = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.write_end, False)
        # A client that is dropped without close() must not leak descriptors.
        self._close = weakref.finalize(self, _close_all, self.fileno, self.write_end)
        # Finalizers run before our own end of the process, which still has to poll the masters.
        self._close.atexit = False

    def wake(self) -> None:
        """Interrupt."""
        if self._close.alive:
            try:
                os.write(self.write_end, b"!")
            except BlockingIOError:
                pass  # full of rings that nobody has answered yet

    def answer(self) -> None:
        """Take note of all rings so far."""
        if not self._close.alive:
            return  # a greenlet that a fork copied: the number is somebody else's descriptor by now
        try:
            os.read(self.fileno, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptors back. Twice is once."""
        self._close()


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Connections(connections.Connections[SocketConnection]):
    """Called with ``mutex``, but for `poll`, `connect_gen` and `changed`."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[MasterConnection[SocketConnection], SocketConnection], None],
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
        self._changed = ParkingLot(mutex, clock, Runtime())
        #: The master whose link has this descriptor.
        self.by_fd: dict[int, MasterConnection[SocketConnection]] = {}
        self._poll = select.poll()
        self._wake_pipe = WakePipe()
        self._poll.register(self._wake_pipe.fileno, select.POLLIN)

    # -- events ------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Wait for the links, at most ``timeout`` seconds. Without the mutex; one thread."""
        try:
            return self._poll.poll(math.ceil(timeout * 1000) if timeout > 0.0 else 0)
        except RuntimeError:
            # "concurrent poll() invocation": the one who was to read before us still does.
            time.sleep(0.001)
            return []

    def wake(self) -> None:
        """Make a thread that polls look at the roster again."""
        self._wake_pipe.wake()

    def serve(
        self, fd: int, event: int
    ) -> tuple[MasterConnection[SocketConnection], SocketConnection] | None:
        """Write what was held back; the slot and the link that may have something to read."""
        server = self.by_fd.get(fd)
        if server is None or (connection := server.connection) is None:
            if fd == self._wake_pipe.fileno:
                self._wake_pipe.answer()
            else:
                # Dropped by a thread that was interrupted half-way: unknown to us, and polled for ever.
                self._forget(fd)
            return None
        if event & select.POLLOUT:
            connection.flush()
            if not connection.outbox:
                self._poll.modify(fd, select.POLLIN)
        return server, connection

    def hold_back(self, connection: SocketConnection) -> None:
        """Write what a link keeps when the kernel takes it."""
        self._poll.modify(connection.fileno, select.POLLIN | select.POLLOUT)
        self.wake()

    def drop(self, server: MasterConnection[SocketConnection], fault: Fault) -> SocketConnection | None:
        """End a link; the caller sees to the replies that it owed."""
        connection = super().drop(server, fault)
        if connection is not None:
            self.wake()  # a poll may still wait for the descriptor that is gone
        return connection

    def _register(self, server: MasterConnection[SocketConnection], connection: SocketConnection) -> None:
        self.by_fd[connection.fileno] = server
        self._poll.register(connection.fileno, select.POLLIN)

    def _unregister(self, connection: SocketConnection) -> None:
        self.by_fd.pop(connection.fileno, None)
        self._forget(connection.fileno)

    def _forget(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass

    # -- connecting --------------------------------------------------------------------------------

    def _until(self, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        yield from self._changed.wait_until(done, timeout)

    def _tell(self) -> None:
        self._changed.wake_all()
        self.wake()

    def _start(self, server: MasterConnection[SocketConnection]) -> None:
        threading.Thread(
            target=self._connect_in_background, args=(server,), name="rlock-dial", daemon=True
        ).start()

    def _connect_in_background(self, server: MasterConnection[SocketConnection]) -> None:
        """Dial once; or, if the master is owed something, until that is over."""
        while (pause := self._connect(server)) is not None:
            time.sleep(pause)
            with self._mutex:
                if not self._may_reconnect(server):
                    return

    def _connect(self, server: MasterConnection[SocketConnection]) -> float | None:
        outcome: SocketConnection | Exception = RuntimeError("the connection attempt was interrupted")
        call = self._connect_options(server)
        pause = None
        try:
            outcome = server.endpoint.connect(call)
        except Exception as error:  # a fault, no descriptor, no memory: that master has no vote
            outcome = error
        finally:
            with self._mutex:
                pause = self._connected(server, call, outcome)
        self._tell_news()
        return pause

    # -- the end -----------------------------------------------------------------------------------

    def abandon(self) -> None:
        """In a forked child: drop our copies of the descriptors, without a word to the servers."""
        super().abandon()
        self.close_wake_pipe()

    def close_wake_pipe(self) -> None:
        """Give the two descriptors of the bell back, which `close` leaves to a thread that polls."""
        self._wake_pipe.close()
