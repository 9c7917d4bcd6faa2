"""Links of the blocking driver: bare sockets, of which a thread waits for all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import AbstractConnection

from .._client.connection import Connection, ConnectOptions, HandshakeResult, connect_error, handshake_steps

#: Bytes that are read at once: answers have less, and each call allocates so many.
CHUNK = 4096


class SocketConnection(Connection):
    """A socket of redis-py's that we read and write."""

    __slots__ = ("_keep", "_layered", "fileno", "outbox", "socket")

    def __init__(self, redis_connection: AbstractConnection, greeted: HandshakeResult) -> None:
        super().__init__(greeted)
        bare: Any = redis_connection._sock
        bare.setblocking(False)
        self._keep = redis_connection  # closes the socket when it goes
        self.socket = bare
        self.fileno = bare.fileno()
        #: TLS may hold decrypted bytes that no poll reports.
        self._layered = hasattr(bare, "pending")
        #: Bytes that the kernel did not take.
        self.outbox = bytearray()

    def send(self, packed: bytes) -> bool:
        """Write, or keep for later what the kernel does not take. Raises OSError on a broken connection.

        Whether something is kept from now on.
        """
        if self.outbox:
            self.outbox += packed
            return False
        try:
            sent = self.socket.send(packed)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            if not _wants_more(error):
                raise
            sent = 0
        if sent == len(packed):
            return False
        self.outbox += packed[sent:]
        return True

    def flush(self) -> None:
        """Write what was kept."""
        kept, self.outbox = bytes(self.outbox), bytearray()
        self.send(kept)

    def fetch(self) -> bytes:
        """What has arrived; empty: nothing, or the reader has it already, or the peer has closed."""
        while True:
            try:
                data: bytes = self.socket.recv(CHUNK)
            except (BlockingIOError, InterruptedError):
                return b""
            except OSError as error:
                if _wants_more(error):
                    return b""
                raise
            if not data:
                self.ended = True
                return data
            self.answered = True
            if len(data) < CHUNK and not self._layered:
                return data
            self.reader.feed(data)

    def close(self) -> None:
        """Close without a word."""
        try:
            self.socket.close()
        except OSError:
            pass


def _wants_more(error: OSError) -> bool:
    # ssl.SSLWantReadError and SSLWantWriteError, without importing ssl where it is not used
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def connect(redis_connection: AbstractConnection, label: str, call: ConnectOptions) -> SocketConnection:
    """Connect, and learn what kind of server it is. Blocks; raises `ConnectError`."""
    try:
        redis_connection.connect()
        greeting = handshake_steps(label, call)
        replies: Any = None  # as `next` sends it
        while True:
            try:
                asked = greeting.send(replies)
            except StopIteration as stop:
                return SocketConnection(redis_connection, stop.value)
            replies = _exchange(redis_connection, asked)
    except (redis.RedisError, OSError, ValueError) as error:
        redis_connection.disconnect()
        raise connect_error(error) from None
    except BaseException:
        redis_connection.disconnect()
        raise


def _exchange(redis_connection: AbstractConnection, commands: Sequence[tuple[str, ...]]) -> list[Any]:
    if commands:
        redis_connection.send_packed_command(redis_connection.pack_commands(commands))
    return [_reply(redis_connection) for _ in commands]


def _reply(redis_connection: AbstractConnection) -> Any:
    try:
        return redis_connection.read_response()
    except redis.AuthenticationError:
        raise
    except redis.ResponseError as error:
        # One command that this user may not run (INFO, CLIENT KILL, SCRIPT LOAD) takes a check or an
        # optimisation away, not the lock.
        return error
