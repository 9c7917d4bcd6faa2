"""Links of the asyncio driver: a transport of the event loop, that we write to and are called by."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.asyncio.connection import AbstractConnection

from .._client.connection import (
    ConnectError,
    Connection,
    ConnectOptions,
    HandshakeResult,
    connect_error,
    handshake_steps,
)


class StreamConnection(Connection, asyncio.Protocol):
    """A transport that redis-py has opened, and that now brings what arrives to us."""

    __slots__ = ("_keep", "arrived", "transport")

    def __init__(self, redis_connection: AbstractConnection, greeted: HandshakeResult) -> None:
        super().__init__(greeted)
        writer: Any = redis_connection._writer
        # A StreamWriter that is collected closes its transport, and a redis-py connection that has one warns.
        self._keep = writer
        redis_connection._reader = redis_connection._writer = None
        self.transport: asyncio.Transport = writer.transport
        #: Called with what has arrived; with nothing when the connection has ended.
        self.arrived: Callable[[bytes], object] | None = None
        self.transport.set_protocol(self)

    def send(self, packed: bytes) -> bool:
        """Write; what the kernel does not take goes out when it does. Raises OSError after the end."""
        if self.transport.is_closing():
            raise BrokenPipeError("the connection is closed")
        self.transport.write(packed)
        return False

    def close(self) -> None:
        """Close without a word."""
        # Not close(): that would first write what a stalled server has not taken yet.
        self.transport.abort()

    def abandon(self) -> None:
        """In a forked child: only our copy of the descriptor."""
        # Not by the transport: it would take the socket out of the epoll set that parent and child share.
        socket = self.transport.get_extra_info("socket")
        descriptor = -1 if socket is None else socket.fileno()
        if descriptor >= 0:
            # The number stays taken: the transport (of uvloop, too) closes it once more when it is collected.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, descriptor)
            os.close(nothing)

    # -- for the event loop ------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.answered = True
        if self.arrived is not None:
            self.arrived(data)
        else:
            self.reader.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self.ended = True
        if self.arrived is not None:
            self.arrived(b"")


async def connect(redis_connection: AbstractConnection, label: str, call: ConnectOptions) -> StreamConnection:
    """Connect, and learn what kind of server it is. Raises `ConnectError`."""
    try:
        await redis_connection.connect()
        greeting = handshake_steps(label, call)
        replies: Any = None  # as `next` sends it
        while True:
            try:
                asked = greeting.send(replies)
            except StopIteration as stop:
                return StreamConnection(redis_connection, stop.value)
            replies = await _exchange(redis_connection, asked)
    except BaseException as error:
        _discard(redis_connection)
        if isinstance(error, ConnectError) or not isinstance(error, Exception):
            raise
        raise connect_error(error) from None


def _discard(redis_connection: Any) -> None:
    # Not by disconnect(), which is awaited: a task that is cancelled has no time.
    writer, redis_connection._writer, redis_connection._reader = redis_connection._writer, None, None
    if writer is not None:
        writer.transport.abort()


async def _exchange(redis_connection: AbstractConnection, commands: Sequence[tuple[str, ...]]) -> list[Any]:
    if commands:
        await redis_connection.send_packed_command(redis_connection.pack_commands(commands))
    return [await _reply(redis_connection) for _ in commands]


async def _reply(redis_connection: AbstractConnection) -> Any:
    try:
        return await redis_connection.read_response()
    except redis.AuthenticationError:
        raise
    except redis.ResponseError as error:
        # One command that this user may not run (INFO, CLIENT KILL, SCRIPT LOAD) takes a check or an
        # optimisation away, not the lock.
        return error
