"""Connections of threads: bare sockets, so that one thread can wait for all of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .._client import endpoints
from .._client.connection import Connection, would_block
from .._client.handshake import HandshakeResult

#: Bytes of one read: more than the usual replies have. Each read allocates so many.
CHUNK = 4096


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
        while True:
            try:
                data: bytes = self.socket.recv(CHUNK)
            except OSError as error:
                if would_block(error):
                    return b""
                raise
            if not data:
                self.ended = True
                return data
            self.answered = True
            if len(data) < CHUNK and not self._buffers:
                return data
            self.reader.feed(data)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()


class Endpoint(endpoints.Endpoint):
    connection_type = SocketConnection
