"""The connections of threads: one poll for all of them, and a short-lived thread for each attempt."""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from typing import Any

from .._client import connections
from .._client.connections import MasterConnection
from .._client.handshake import ConnectOptions
from .._client.runtime import NO_WAIT
from ..model import Fault
from ..procedures.port import WaitGenerator
from .connection import SocketConnection
from .runtime import run


class WakePipe:
    """A pipe that is polled together with sockets, to wake the thread that polls."""

    __slots__ = ("__weakref__", "_close", "fileno", "write_end")

    def __init__(self) -> None:
        self.fileno, self.write_end = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.write_end, False)
        # A client that is dropped without close() must not leak descriptors.
        self._close = weakref.finalize(self, _close_all, self.fileno, self.write_end)
        # Finalizers run before the locks are released at the end of the process, which needs the pipe.
        self._close.atexit = False

    def wake(self) -> None:
        """Make the pipe readable."""
        if self._close.alive:
            try:
                os.write(self.write_end, b"!")
            except BlockingIOError:
                pass  # full of wake-ups that nobody has read yet

    def clear(self) -> None:
        """Forget all wake-ups so far."""
        if self._close.alive:  # otherwise the number may be another file's: in a greenlet after a fork
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


Server = MasterConnection[SocketConnection]


class Connections(connections.Connections[SocketConnection]):
    """Called with ``mutex``, except for `poll` and `connect_gen`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: By the descriptor of their connection.
        self.by_fd: dict[int, Server] = {}
        self._poll = select.poll()
        self._wake_pipe = WakePipe()
        self._poll.register(self._wake_pipe.fileno, select.POLLIN)

    # -- events ------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Wait for events, at most ``timeout`` seconds. Without the mutex, by one thread at a time."""
        try:
            return self._poll.poll(math.ceil(timeout * 1000) if timeout > 0.0 else 0)
        except RuntimeError:  # "concurrent poll() invocation": the reader before this one still polls
            time.sleep(0.001)
            return []

    def wake(self) -> None:
        """Wake the thread that polls."""
        self._wake_pipe.wake()

    def serve(self, fd: int, event: int) -> tuple[Server, SocketConnection] | None:
        """Handle an event: write the backlog. Returns the connection that may have something to read."""
        server = self.by_fd.get(fd)
        if server is None or (connection := server.connection) is None:
            if fd == self._wake_pipe.fileno:
                self._wake_pipe.clear()
            else:
                # Ctrl-C came in the middle of `drop`: otherwise this descriptor would be polled for ever.
                self._forget(fd)
            return None
        if event & select.POLLOUT:
            connection.flush()
            if not connection.backlog:
                self._poll.modify(fd, select.POLLIN)
        return server, connection

    def hold_back(self, connection: SocketConnection) -> None:
        self._poll.modify(connection.fileno, select.POLLIN | select.POLLOUT)
        self.wake()

    def drop(self, server: Server, fault: Fault) -> SocketConnection | None:
        connection = super().drop(server, fault)
        if connection is not None:
            self.wake()  # a poll under way still waits for its descriptor
        return connection

    def _register(self, server: Server, connection: SocketConnection) -> None:
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

    def _wake_waiters(self) -> None:
        super()._wake_waiters()
        self.wake()  # a poll under way does not wait for a new connection yet

    def _start(self, server: Server) -> None:
        threading.Thread(
            target=self._connect_in_background, args=(server,), name="rlock-dial", daemon=True
        ).start()

    def _connect_in_background(self, server: Server) -> None:
        try:
            run(self._connect_gen(server))
        except BaseException:  # a greenlet may be killed
            with self._mutex:
                self._interrupted(server)
            raise

    def _open(self, server: Server, options: ConnectOptions) -> WaitGenerator[SocketConnection]:
        connection: SocketConnection = server.endpoint.connect(options)
        yield from NO_WAIT
        return connection

    # -- the end -----------------------------------------------------------------------------------

    def abandon(self) -> None:
        super().abandon()
        self.close_wake_pipe()

    def close_wake_pipe(self) -> None:
        """Close the pipe. Not in `close`, because a thread may still poll it."""
        self._wake_pipe.close()
