"""The connections of threads: of the threads that wait, one reads for all.

That thread is the leader, the others are followers. So a single thread gets its reply without a thread
switch. A leader whose wait is over wakes a follower, which becomes the next leader. A short-lived thread
makes each attempt to connect.

Threads run Python one at a time. So followers are woken one after another, and until the last one has run,
commands are gathered: then one thread writes all of them, in one write to each master.
"""

import math
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from .._client import connections, endpoints
from .._client.connection import Connection, MasterConnection, would_block
from .._client.handshake import HandshakeResult
from .._client.runtime import Background, Waiter
from ..model import Fault
from ..procedures.port import WaitGenerator
from .runtime import run

CHUNK = 4096  # bytes of one read: more than the usual replies have; each read allocates so many
#: So many bytes are read before their replies are looked at: the first may end the connection.
BURST = 65_536


class SocketConnection(Connection):
    """A bare socket, so that one thread can wait for all of them."""

    def __init__(self, redis_connection: Any, result: HandshakeResult) -> None:
        super().__init__(result, redis_connection.secrets)
        self._owner = redis_connection
        self.socket: Any = redis_connection._sock
        self.socket.setblocking(False)
        self.fileno = self.socket.fileno()
        self.write = self.socket.send
        #: TLS may hold decrypted bytes that no poll reports.
        self._buffers = hasattr(self.socket, "pending")

    def fetch(self) -> bytes:
        """The bytes that have arrived. Empty: none, or the peer has closed."""
        data = b""
        while True:
            try:
                chunk: bytes = self.socket.recv(CHUNK)
            except OSError as error:
                if would_block(error):
                    return data
                raise
            data += chunk
            self.ended = not chunk
            # Each read from TLS gives one record at the most.
            whole = len(data) >= BURST or (len(chunk) < CHUNK and not self._buffers)
            if self.ended or (whole and not (self._buffers and self.socket.pending())):
                return data

    def close(self) -> None:
        with suppress(OSError), self.socket:  # not by its library: that class may be a user's
            if os.getpid() == self._owner.pid:  # a child that was forked meanwhile may have a copy
                self.socket.shutdown(socket.SHUT_RDWR)


class Endpoint(endpoints.Endpoint):
    connection_type = SocketConnection


class WakePipe:
    """A pipe that is polled together with sockets, to wake the thread that polls."""

    def __init__(self) -> None:
        self.fileno, self.write_end = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.write_end, False)
        #: Closes the descriptors. A client that is dropped without close() must not leak them.
        self.close = weakref.finalize(self, _close_all, self.fileno, self.write_end)
        # Not at exit: finalizers run before the release of the locks, which needs the pipe.
        self.close.atexit = False

    def wake(self) -> None:
        if self.close.alive:
            with suppress(BlockingIOError):  # full of wake-ups that nobody has read yet
                os.write(self.write_end, b"!")

    def clear(self) -> None:
        if self.close.alive:  # otherwise a greenlet after a fork could read another file
            with suppress(BlockingIOError):
                os.read(self.fileno, 4096)


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


#: How long commands are gathered at most. A woken thread may wait so long for the interpreter.
GATHER_S = 0.005

Server = MasterConnection[SocketConnection]


class Connections(connections.Connections[SocketConnection]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.by_fd: dict[int, Server] = {}
        self._poll = select.poll()
        self._wake_pipe = WakePipe()
        self._poll.register(self._wake_pipe.fileno, select.POLLIN)
        self._leader: Waiter | None = None  # the waiter whose thread reads for all, and that thread
        self._reader: object = None
        self._nested: Waiter | None = None  # it was reading when a signal handler or finalizer began to
        self._followers: set[Waiter] = set()
        #: Followers that have their replies and are not woken yet, in order.
        self._answered: dict[Waiter, None] = {}
        #: The follower that was woken last: it wakes the next one, or it leads and writes.
        self._next: Waiter | None = None
        self._gather_until = -math.inf
        self._unstarted: set[Server] = set()  # masters for whose attempts no thread could be started

    def connect_gen(self, patience: float, enough: int, check: Callable[[], None]) -> WaitGenerator[None]:
        until = self._clock() + patience
        yield from super().connect_gen(patience, enough, check)
        while self.up < enough and self._unstarted and self._clock() <= until:
            with self._mutex:
                server = self._unstarted.pop() if self._unstarted else None
            if server is not None and server.connection is None:
                run(self._connect_gen(server, once=True))

    def read_until(self, waiter: Waiter, done: Callable[[], bool], until: float) -> WaitGenerator[None]:
        late = False
        try:
            while True:
                with self._mutex:
                    if done() or late or self.closed:
                        return
                    now = self._clock()
                    rest_s = min(until, waiter.deadline) - now
                    late = rest_s <= 0
                    # Late, it reads itself: the leader may have been kept from running as well.
                    reads = late or self._leads(waiter, now)
                if reads:
                    checks = late or now >= self._traffic.check_at
                    wait = 0.0 if checks else min(rest_s, self._patience)
                    # Late, it does not poll: the leader may not have left its own poll.
                    events = [(fd, 0) for fd in list(self.by_fd)] if late else self.poll(wait)
                    if events is None:
                        continue  # another thread still polls, and reads what arrives
                    with self._mutex:
                        for fd, event in events:
                            self._serve(fd, event)
                        over = done()  # in the same section: taking the mutex again costs as much as a call
                    self._traffic.after_data()
                    if checks:
                        self._traffic.drop_overdue(now)
                    if over:
                        return
                else:
                    yield from waiter.parker.park(min(rest_s, self._patience))
        finally:
            self._leave(waiter)

    def _leads(self, waiter: Waiter, now: float) -> bool:
        """Whether this waiter reads for all; otherwise another one does, and will wake it.

        Ctrl-C may come between any two lines, so no `finally` is sure to run. So followers check now and then
        whether the leader still waits, and replace it: otherwise no thread would read.
        """
        leader = self._leader
        if self.gathering and waiter not in (leader, self._next) and self._next_is_coming(now):
            leader = self._next
        caller = threading.get_ident()
        if (
            leader is None
            or leader is waiter
            or not leader.asleep
            or now > leader.deadline + self._patience
            # A signal handler or finalizer waits, so its own thread does not read.
            or (leader is self._leader and self._reader == caller)
        ):
            if self._reader == caller and self._leader not in (None, waiter):
                self._nested = self._leader
            self._leader, self._reader = waiter, caller
            if self._answered or self.gathering:
                self._wake_next(waiter, now)
            return True
        waiter.parker = waiter.parker or self.parker()
        self._followers.add(waiter)
        return False

    def _next_is_coming(self, now: float) -> bool:
        return now < self._gather_until and self._next is not None and self._next.asleep

    def _leave(self, waiter: Waiter) -> None:
        with self._mutex:
            self._followers.discard(waiter)
            self._answered.pop(waiter, None)
            if self._nested is waiter:
                self._nested = None
            if self._leader is waiter:
                self._leader = None
                if self._nested is not None:
                    # Otherwise the interrupted wait would go on polling for what this one has read.
                    self._wake_pipe.wake()
            if self._followers or self.gathering:
                self._wake_next(waiter, self._clock())
            if self.closed and self._leader is None:
                self._wake_pipe.close()

    def _wake_next(self, waiter: Waiter, now: float) -> None:
        """Wake a follower that has its reply, or one to lead. Without one, write what was gathered."""
        if self.gathering and self._next is not waiter and self._next_is_coming(now):
            return  # it will do that
        found = next(iter(self._answered), None)
        if found is not None:
            del self._answered[found]
        elif self._leader is None:  # otherwise nobody would read
            found = next((other for other in self._followers if other.asleep), None)
        self._next = found
        self.write_gathered(math.inf if found is None else now)
        if found is not None:
            if not self.gathering:
                self.gathering, self._gather_until = True, now + GATHER_S
            found.parker.wake()

    def wake(self, waiter: Waiter) -> None:
        # Not at once: threads that wake together wait for the interpreter and for the mutex.
        if waiter in self._followers:
            self._answered[waiter] = None

    def write_gathered(self, now: float = math.inf) -> None:
        if not self.gathering or now < self._gather_until:
            return
        for server in self.servers:
            if (connection := server.connection) is not None and connection.backlog:
                try:
                    if connection.flush():
                        self.hold_back(connection)
                except BaseException as error:
                    self.fail(server, error)
        self.gathering = False

    def read_arrived(self) -> None:
        if self._mutex._is_owned():
            return  # a signal handler asks, and its own thread reads
        with self._mutex:
            for fd in list(self.by_fd):
                self._serve(fd, 0)
            if self._leader is not None:
                self._wake_pipe.wake()  # its replies may be among them
        self._traffic.after_data()

    def poll(self, timeout: float) -> list[tuple[int, int]] | None:
        """Wait for events, at most ``timeout`` seconds. None: another thread polls. Without the mutex."""
        try:
            return self._poll.poll(math.ceil(timeout * 1000) if timeout > 0.0 else 0)
        except RuntimeError as error:  # the leader before this one still polls
            if "concurrent poll" not in str(error):
                raise  # a signal handler raised it
            time.sleep(0.001)
            return [(fd, 0) for fd in list(self.by_fd)] if self._reader == threading.get_ident() else None

    def wake_reader(self, waiter: Waiter) -> None:
        if self._leader is waiter and not self.closed:
            self._wake_pipe.wake()

    def _serve(self, fd: int, event: int) -> None:
        server = self.by_fd.get(fd)
        if server is None or (connection := server.connection) is None:
            if fd == self._wake_pipe.fileno:
                self._wake_pipe.clear()
            else:
                # Ctrl-C came in the middle of `drop`: otherwise each poll would return at once, for ever.
                self._forget(fd)
            return
        try:
            if event & select.POLLOUT and not connection.flush():
                self._poll.modify(fd, select.POLLIN)
            # Inside this try: Ctrl-C after the fetch must drop the connection, because its bytes are lost.
            self.take(server, connection, connection.fetch())
        except BaseException as error:
            self.fail(server, error)

    def hold_back(self, connection: SocketConnection) -> None:
        self._poll.modify(connection.fileno, select.POLLIN | select.POLLOUT)
        self._wake_pipe.wake()

    def drop(self, server: Server, fault: Fault) -> None:
        try:
            super().drop(server, fault)
        finally:  # otherwise a poll under way would wait for a closed descriptor
            self._wake_pipe.wake()

    def _register(self, server: Server, connection: SocketConnection) -> None:
        self.by_fd[connection.fileno] = server
        self._poll.register(connection.fileno, select.POLLIN)

    def _unregister(self, connection: SocketConnection) -> None:
        self.by_fd.pop(connection.fileno, None)
        self._forget(connection.fileno)

    def _forget(self, fd: int) -> None:
        with suppress(KeyError):
            self._poll.unregister(fd)

    def _wake_waiters(self) -> None:
        super()._wake_waiters()
        for follower in self._followers:
            follower.parker.wake()
        self._wake_pipe.wake()  # otherwise a poll under way would not see a new connection

    def _start(self, server: Server) -> None:
        self._unstarted.add(server)
        Background(partial(self._attempt, server), "rlock-dial")
        self._unstarted.discard(server)

    def _attempt(self, server: Server) -> None:
        try:
            run(self._connect_gen(server))
        except BaseException:  # a greenlet may be killed
            with self._mutex:
                self._interrupted(server)
            raise

    def close(self) -> None:
        super().close()
        if self._leader is None:
            self._wake_pipe.close()  # else the leader closes it in `_leave`: it may still poll it

    def abandon(self) -> None:
        super().abandon()
        self._wake_pipe.close()
