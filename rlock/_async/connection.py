"""Connections of tasks: transports of the event loop, which call when something has arrived."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .._client import endpoints
from .._client.connection import Connection
from .._client.handshake import ConnectError, ConnectOptions, HandshakeResult, connect_error, handshake
from .._client.libraries import errors
from .._client.sentinel import AsyncService
from .runtime import run


class StreamConnection(Connection, asyncio.Protocol):
    """A transport that redis-py or valkey-py has opened; the client itself writes and reads."""

    def __init__(self, redis_connection: Any, result: HandshakeResult) -> None:
        super().__init__(result, redis_connection.secrets)
        # Kept: a StreamWriter closes its transport when it is collected. Taken away from the library's
        # connection, which would warn when it is collected.
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
        # Not close(), which first writes the bytes that a stalled server has not taken.
        self.transport.abort()

    def abandon(self) -> None:
        # Not by the transport: it would take the socket out of the epoll set that parent and child share.
        socket = self.transport.get_extra_info("socket")
        descriptor = -1 if socket is None else socket.fileno()
        if descriptor >= 0:
            # The number stays taken: the transport (uvloop's, too) closes it once more when it is collected.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, descriptor)
            os.close(nothing)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        if self.arrived is not None:
            self.arrived(data)
        else:
            self.reader.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        if self.arrived is not None:
            self.arrived(b"")


class Endpoint(endpoints.Endpoint):
    """One master's address, to which a task connects."""

    part: ClassVar[str] = ".asyncio"
    service_type = AsyncService

    async def connect_async(self, options: ConnectOptions) -> StreamConnection:
        """A connection after its handshake. Raises `ConnectError`."""
        options = options._replace(replicas=self.replicas)
        redis_connection = self.connection(options.timeout, options.connect_timeout)
        try:
            await redis_connection.connect()
            steps = handshake(
                self.label, options, lambda commands: _exchange(redis_connection, commands).__await__()
            )
            return StreamConnection(redis_connection, await run(steps))
        except BaseException as error:
            # Not by disconnect(), which is awaited: a cancelled task must not wait.
            writer, redis_connection._writer, redis_connection._reader = redis_connection._writer, None, None
            if writer is not None:
                writer.transport.abort()
            if isinstance(error, ConnectError) or not isinstance(error, Exception):
                raise
            raise connect_error(error) from None


async def _exchange(redis_connection: Any, commands: Sequence[tuple[str, ...]]) -> list[Any]:
    await redis_connection.send_packed_command(redis_connection.pack_commands(commands))
    return [await _reply(redis_connection) for _ in commands]


async def _reply(redis_connection: Any) -> Any:
    try:
        return await redis_connection.read_response()
    except errors("AuthenticationError"):
        raise
    except errors("ResponseError") as error:
        # Without a permission (INFO, CLIENT KILL, SCRIPT LOAD) only a check is missing, not the lock.
        return error
