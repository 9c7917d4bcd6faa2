"""A connection to one master on which each question has its time; and why a connection failed."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

import hiredis

from ..._client.libraries import Reader, library_of
from ..._sync.connections import Endpoint
from ...rules.command_templates import Command
from ...rules.replies import is_noscript
from .facts import Trouble

library = library_of(None)

#: Errors with which a server greets a client that it does not want, whatever was asked.
_GREETINGS = {
    "NOAUTH": Trouble.DENIED,
    "WRONGPASS": Trouble.DENIED,
    "DENIED": Trouble.PROTECTED,
    "ERR max number of clients": Trouble.CROWDED,
}
#: Subclasses before their bases.
_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Trouble], ...] = (
    (socket.gaierror, Trouble.DNS),
    (UnicodeError, Trouble.DNS),  # a host name that IDNA cannot carry
    (ssl.SSLError, Trouble.TLS),
    ((library.AuthenticationError, library.exceptions.NoPermissionError), Trouble.DENIED),
    (library.InvalidResponse, Trouble.PROTOCOL),
    ((hiredis.ProtocolError, hiredis.HiredisError), Trouble.PROTOCOL),
    ((TimeoutError, library.TimeoutError), Trouble.TIMEOUT),
    ((ConnectionRefusedError, FileNotFoundError), Trouble.REFUSED),
    ((ConnectionResetError, BrokenPipeError, EOFError), Trouble.CLOSED),
)


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
        self._connection = endpoint.connection(self._time_left())
        self._reader = Reader(self._connection.secrets)
        try:
            self._connection.connect()
        except BaseException as error:
            self._connection.disconnect()
            if isinstance(error, library.RedisError | OSError | ValueError):
                raise SessionError(*trouble_of(error)) from None
            raise
        #: The bare socket: redis-py would close the connection on LOADING, NOAUTH and others.
        self.socket: Any = self._connection._sock

    def _time_left(self) -> float:
        left = min(self._patience, self.deadline - time.monotonic())
        if left <= 0:
            raise SessionError(Trouble.TIMEOUT, "it is too slow to be asked everything")
        return left

    def ask(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """The replies, an exception in the place of an error. Raises `SessionError`."""
        packed = b"".join(hiredis.pack_command(tuple(words)) for words in commands)  # type: ignore[arg-type]
        self.socket.settimeout(self._time_left())
        # A master that closed the connection may have said why before: the replies tell.
        with contextlib.suppress(OSError):
            self.socket.sendall(packed)
        return [self.receive() for _ in commands]

    def one(self, *words: str) -> Any:
        """The reply to one command."""
        return self.ask([words])[0]

    def run(self, command: Command) -> Any:
        """The reply to a script, which is sent in full if the master does not have it."""
        reply = self.one(*command.by_sha())
        return self.one(*command.by_source()) if is_noscript(reply) else reply

    def receive(self) -> Any:
        """The next reply or message."""
        try:
            while (reply := self._reader.gets()) is False:
                self.socket.settimeout(self._time_left())
                data = self.socket.recv(65536)
                if not data:
                    raise SessionError(Trouble.CLOSED, "it closed the connection without an answer")
                self._reader.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            raise SessionError(*trouble_of(error)) from None
        if isinstance(reply, Exception):
            for greeting, trouble in _GREETINGS.items():
                if str(reply).startswith(greeting):
                    raise SessionError(trouble, str(reply))
        return reply

    def peer(self) -> tuple[str, int | None] | None:
        """Where the connection went: address and port, or a path."""
        name = self.socket.getpeername()
        if isinstance(name, tuple):
            return str(name[0]).removeprefix("::ffff:"), int(name[1])
        return (str(name), None) if name else None

    def close(self) -> None:
        """Close it."""
        self._connection.disconnect()


def trouble_of(error: BaseException) -> tuple[Trouble, str]:
    """The meaning of an exception; redis-py wraps those of the system."""
    text = (str(error) or type(error).__name__).strip().rstrip(".")
    current: BaseException | None = error
    seen: list[BaseException] = []
    while current is not None and current not in seen:
        if isinstance(current, SessionError):
            return current.trouble, str(current)
        for kinds, trouble in _KINDS:
            if isinstance(current, kinds):
                return trouble, text
        seen.append(current)
        current = current.__cause__ or current.__context__
    for greeting, trouble in _GREETINGS.items():
        if greeting.removeprefix("ERR ") in text:
            return trouble, text
    return (Trouble.REFUSING if isinstance(error, library.ResponseError) else Trouble.UNREACHABLE), text
