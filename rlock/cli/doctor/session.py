"""A connection to one master on which questions are asked, each within its time; and why there is none."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

import hiredis
import redis

from ..._client.connection import Reader
from ..._client.handshake import without_arguments
from ..._sync.endpoints import Endpoint
from ...rules.command_templates import Command
from ...rules.replies import is_noscript
from .facts import Trouble

#: Errors with which a server greets whom it does not want, whatever was asked.
_GREETINGS = {
    "NOAUTH": Trouble.DENIED,
    "WRONGPASS": Trouble.DENIED,
    "DENIED": Trouble.PROTECTED,
    "ERR max number of clients": Trouble.CROWDED,
}


class SessionError(Exception):
    """The master cannot be asked."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


class Session:
    """One connection. ``patience``: seconds for one answer; ``deadline``: for all of them."""

    def __init__(self, endpoint: Endpoint, patience: float, deadline: float) -> None:
        self._patience = patience
        self.deadline = deadline
        self._reader = Reader()
        #: What the user may not do of what the URL asks for when it connects.
        self.missing: list[str] = []
        self._connection = self._open(endpoint)
        #: The bare socket: redis-py would close the connection on LOADING, NOAUTH and others.
        self.socket: Any = self._connection._sock

    def _open(self, endpoint: Endpoint) -> Any:
        connection = endpoint.connection(self._time_left())
        for _ in range(3):
            try:
                connection.connect()
            except redis.exceptions.NoPermissionError as error:
                # `select` for a database, `client|setname` for a client_name: without them the rest can
                # still be examined.
                if connection.db and "'select'" in str(error):
                    self.missing.append("select")
                    connection.db = 0
                elif connection.client_name and "'client" in str(error):
                    self.missing.append("client|setname")
                    connection.client_name = None
                else:
                    connection.disconnect()
                    raise SessionError(Trouble.DENIED, str(error)) from None
            except (redis.RedisError, OSError, ValueError) as error:
                connection.disconnect()
                trouble, text = trouble_of(error)
                if isinstance(connection, endpoint.redis_py.SSLConnection) and _without_tls(connection):
                    trouble, text = Trouble.TLS, f"it answers without TLS ({text})"
                raise SessionError(trouble, text) from None
            except BaseException:
                connection.disconnect()
                raise
            else:
                return connection
        raise SessionError(Trouble.DENIED, "connecting needs permissions that this user lacks")

    def _time_left(self) -> float:
        left = min(self._patience, self.deadline - time.monotonic())
        if left <= 0:
            raise SessionError(Trouble.TIMEOUT, "it is too slow to be asked everything")
        return left

    def ask(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """The replies, an exception in the place of an error. Raises `SessionError`."""
        try:
            self.socket.settimeout(self._time_left())
            packed = b"".join(hiredis.pack_command(tuple(words)) for words in commands)  # type: ignore[arg-type]
            self.socket.sendall(packed)
        except OSError as error:
            # It may have said why before it closed.
            raise SessionError(*(self._last_words() or trouble_of(error))) from None
        return [self._reply() for _ in commands]

    def one(self, *words: str) -> Any:
        """The reply to one command."""
        return self.ask([words])[0]

    def run(self, command: Command) -> Any:
        """The reply to a script, which is sent in full if the master has not got it."""
        reply = self.one(*command.by_sha())
        return self.one(*command.by_source()) if is_noscript(reply) else reply

    def receive(self) -> Any:
        """What comes next, unasked."""
        return self._reply()

    def _reply(self) -> Any:
        try:
            while True:
                reply = self._reader.gets()
                if reply is not False:
                    break
                self.socket.settimeout(self._time_left())
                data = self.socket.recv(65536)
                if not data:
                    raise SessionError(Trouble.CLOSED, "it closed the connection without an answer")
                self._reader.feed(data)
        except OSError as error:
            raise SessionError(*trouble_of(error)) from None
        except hiredis.ProtocolError as error:
            raise SessionError(Trouble.PROTOCOL, str(error)) from None
        if isinstance(reply, Exception):
            for greeting, trouble in _GREETINGS.items():
                if str(reply).startswith(greeting):
                    raise SessionError(trouble, str(reply))
        return reply

    def _last_words(self) -> tuple[Trouble, str] | None:
        try:
            self.socket.settimeout(0.1)
            self._reader.feed(self.socket.recv(65536))
            reply = self._reader.gets()
        except (OSError, hiredis.ProtocolError):
            return None
        for greeting, trouble in _GREETINGS.items():
            if str(reply).startswith(greeting):
                return trouble, str(reply)
        return None

    def peer(self) -> tuple[str, int | None] | None:
        """Where the connection went: address and port, or a path."""
        name = self.socket.getpeername()
        if isinstance(name, tuple):
            return str(name[0]).removeprefix("::ffff:"), int(name[1])
        return (str(name), None) if name else None

    def close(self) -> None:
        """Close it."""
        self._connection.disconnect()


def _without_tls(connection: Any) -> bool:
    """Whether a server speaks plainly: one that waits for more of a line than a greeting of TLS has is
    otherwise taken for one that hangs."""
    try:
        with socket.create_connection((connection.host, int(connection.port)), 0.25) as plain:
            plain.settimeout(0.25)
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in (b"+", b"-")
    except OSError:
        return False


def trouble_of(error: BaseException) -> tuple[Trouble, str]:
    """What an exception means, for a program and for a person; redis-py wraps those of the system."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    text = (without_arguments(error) or type(error).__name__).strip().rstrip(".")
    for each in chain:
        if isinstance(each, SessionError):
            return each.trouble, str(each)
        for kinds, trouble in _KINDS:
            if isinstance(each, kinds):
                return trouble, text
    for greeting, trouble in _GREETINGS.items():
        if greeting.removeprefix("ERR ") in text:
            return trouble, text
    if isinstance(error, redis.ResponseError):
        return Trouble.REFUSING, text
    return Trouble.UNREACHABLE, text


#: Before what they are derived from.
_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Trouble], ...] = (
    (socket.gaierror, Trouble.DNS),
    (UnicodeError, Trouble.DNS),  # a host name that IDNA cannot carry
    (ssl.SSLError, Trouble.TLS),
    ((redis.AuthenticationError, redis.exceptions.NoPermissionError), Trouble.DENIED),
    (redis.exceptions.InvalidResponse, Trouble.PROTOCOL),
    ((hiredis.ProtocolError, hiredis.HiredisError), Trouble.PROTOCOL),
    ((TimeoutError, redis.TimeoutError), Trouble.TIMEOUT),
    ((ConnectionRefusedError, FileNotFoundError), Trouble.REFUSED),
    ((ConnectionResetError, BrokenPipeError, EOFError), Trouble.CLOSED),
)
