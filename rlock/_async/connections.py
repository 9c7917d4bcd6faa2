"""The connections of tasks: each calls when something has arrived, and a task makes each attempt.

Names are looked up in threads of rlock: lookups that hang would fill the executor of the event loop, which
the application needs and `asyncio.run` waits for. There is one thread for each name at most.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, ClassVar

from .._client import connections, endpoints, sentinel
from .._client.connection import Connection, MasterConnection
from .._client.handshake import HandshakeResult
from .._client.libraries import AsyncParser
from .._client.runtime import RunningCalls, Waiter, in_thread
from ..procedures.port import WaitGenerator
from .runtime import TWO_PASSES, run


class StreamConnection(Connection, asyncio.Protocol):
    def __init__(self, redis_connection: Any, result: HandshakeResult) -> None:
        super().__init__(result, redis_connection.secrets)
        # Kept: it closes its transport when it is collected. Taken away from the library, which would warn.
        writer: Any = redis_connection._writer
        self._writer = writer
        redis_connection._reader = redis_connection._writer = None
        self.transport: asyncio.Transport = writer.transport
        #: Called with the bytes that have arrived; with none when the connection has ended.
        self.arrived: Callable[[bytes], object] | None = None
        self.transport.set_protocol(self)

    def write(self, packed: bytes) -> int:
        """Write; the transport keeps bytes that the kernel does not take. Raises OSError after the end."""
        if self.transport.is_closing():
            raise BrokenPipeError("the connection is closed")
        self.transport.write(packed)
        return len(packed)

    def close(self) -> None:
        found = self.transport.get_extra_info("socket")
        if found is not None and not self.transport.is_closing():
            # A child that was forked in the middle of an attempt to connect has a copy.
            with suppress(OSError), socket.socket(fileno=os.dup(found.fileno())) as copy:
                copy.shutdown(socket.SHUT_RDWR)
        # Not close(), which first writes the bytes that a stalled server has not taken.
        self.transport.abort()

    def abandon(self) -> None:
        # Not by the transport: it would take the socket out of the epoll set that parent and child share.
        found = self.transport.get_extra_info("socket")
        descriptor = -1 if found is None else found.fileno()
        if descriptor >= 0:
            # The number stays taken: the transport (uvloop's, too) closes it once more when it is collected.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, descriptor)
            os.close(nothing)

    def data_received(self, data: bytes) -> None:
        if self.arrived is not None:
            self.arrived(data)
        else:
            self.reader.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        if self.arrived is not None:
            self.arrived(b"")


class Service(sentinel.Service):
    async def get_master_address(self) -> Any:
        asked = [asyncio.wait_for(run(self._ask(one)), sentinel.DEADLINE_S) for one in self.sentinels]
        return self.newest(await asyncio.gather(*asked, return_exceptions=True))


class Endpoint(endpoints.Endpoint):
    part: ClassVar[str] = ".asyncio"
    service_type = Service
    parser_type = AsyncParser
    connection_type = StreamConnection

    def __init__(self, master: object) -> None:
        super().__init__(master)
        self._class = _dialling(self._class)  # type: ignore[arg-type]

    def abort(self, made: Any) -> None:
        # Not by disconnect(), which is awaited: a cancelled task must not wait.
        writer, made._writer, made._reader = made._writer, None, None
        if writer is not None:
            writer.transport.abort()


@cache
def _dialling(kind: type[Any]) -> type[Any]:
    """A library's class of connections, to each address of a name until one answers."""
    if not hasattr(kind, "_connection_arguments"):
        return kind  # a unix socket

    async def connect(self: Any) -> None:
        reason: Exception = OSError(f"the name {self.host} has no address")
        for found in await _addresses(self.host, self.port, self.socket_connect_timeout):
            self.address = found[4]
            try:
                return await kind._connect(self)  # type: ignore[no-any-return]
            except OSError as error:
                reason = error
        raise reason

    def arguments(self: Any) -> dict[str, Any]:
        host, port, *_ = self.address
        given = {**kind._connection_arguments(self), "host": host, "port": port}
        return given | ({"server_hostname": self.host} if given.get("ssl") else {})

    return type(kind.__name__, (kind,), {"_connect": connect, "_connection_arguments": arguments})


_lookups: RunningCalls = {}  # the lookups under way, by name and port


async def _addresses(host: str, port: int, timeout: float) -> list[Any]:
    with suppress(OSError):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = in_thread(_lookups, (host, port), look_up)
        return await asyncio.wait_for(asyncio.wrap_future(found), timeout)
    except TimeoutError:
        raise OSError(f"the name {host} was not looked up within {timeout:g} s") from None


Server = MasterConnection[StreamConnection]


class Connections(connections.Connections[StreamConnection]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references to its tasks

    def read_until(self, waiter: Waiter, done: Callable[[], bool], until: float) -> WaitGenerator[None]:
        parker = waiter.parker = waiter.parker or self.parker()
        self._sleepers[parker] = None
        try:
            while not done() and not self.closed:
                rest_s = min(until, waiter.deadline) - self._clock()
                if rest_s <= 0:
                    yield from TWO_PASSES
                    return
                woken = yield from parker.park(min(rest_s, self._patience))
                now = self._clock()
                if not woken or now >= self._traffic.check_at:
                    self._traffic.check_at = now + self._patience  # one task checks for all
                    yield from TWO_PASSES  # otherwise an unread reply would count as overdue
                    self._traffic.drop_overdue(now)
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
        task = asyncio.Task(self._attempt(server), loop=loop, name="rlock-dial")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, server))

    async def _attempt(self, server: Server) -> None:
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
