"""Connections of threads: bare sockets, so that one thread can wait for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .._client import endpoints
from .._client.connection import Connection, would_block
from .._client.handshake import ConnectOptions, HandshakeResult, connect_error, handshake
from .._client.libraries import errors
from .._client.runtime import NO_WAIT
from ..procedures.port import WaitGenerator
from .runtime import run

#: Bytes of one read: more than the usual replies have. Each read allocates so many.
CHUNK = 4096
#: Reads before the bytes are parsed: a bound of memory.
READS = 16


class SocketConnection(Connection):
    def __init__(self, redis_connection: Any, result: HandshakeResult) -> None:
        super().__init__(result, redis_connection.secrets)
        socket: Any = redis_connection._sock
        socket.setblocking(False)
        self._owner = redis_connection  # closes the socket when it is collected
        self.socket = socket
        self.fileno = socket.fileno()
        self.write = socket.send
        #: TLS may hold decrypted bytes that no poll reports.
        self._buffers = hasattr(socket, "pending")

    def fetch(self) -> bytes:
        """The bytes that have arrived. Empty: none, or the reader has them, or the peer has closed."""
        for _ in range(READS):
            try:
                data: bytes = self.socket.recv(CHUNK)
            except OSError as error:
                if would_block(error):
                    self.more = False
                    return b""
                raise
            if not data:
                self.ended = True
                return data
            self.answered = True
            if len(data) < CHUNK and not self._buffers:
                self.more = False
                return data
            self.reader.feed(data)
        self.more = True
        return b""

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()


class Endpoint(endpoints.Endpoint):
    def connect(self, options: ConnectOptions) -> SocketConnection:
        """A connection after its handshake. Blocks; raises `ConnectError`."""
        options = options._replace(replicas=self.replicas)
        redis_connection = self.connection(options.timeout, options.connect_timeout)
        try:
            redis_connection.connect()
            result = run(handshake(self.label, options, partial(_exchange, redis_connection)))
            return SocketConnection(redis_connection, result)
        except BaseException as error:
            redis_connection.disconnect()
            if isinstance(error, errors("RedisError") + (OSError, ValueError)):
                raise connect_error(error, tls=self.tls) from None
            raise


def _exchange(redis_connection: Any, commands: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
    redis_connection.send_packed_command(redis_connection.pack_commands(commands))
    yield from NO_WAIT
    return [_reply(redis_connection) for _ in commands]


def _reply(redis_connection: Any) -> Any:
    try:
        return redis_connection.read_response()
    except errors("AuthenticationError"):
        raise
    except errors("ResponseError") as error:
        # Without a permission (INFO, CLIENT KILL, SCRIPT LOAD) only a check is missing, not the lock.
        return error
