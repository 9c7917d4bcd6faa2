"""The libraries: hiredis, and redis-py or valkey-py, its fork; both of them have the same names.

No error of a server reaches a message with a password in it, or with characters that a log obeys. A server
without AUTH, and a Sentinel, repeat the arguments of a command that they do not know. All errors of servers
come through a `Reader` of the secrets. It also bounds the memory and the time that a server can take.
"""

import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import hiredis

_PACKAGES = ("redis", "valkey")  # the first one that is installed connects to URLs
LONGEST = 200  # the longest text of a server in a message, in characters
#: The longest reply, in bytes. Each line counts for more: an empty array has 4 bytes, and takes 60 of memory.
LONGEST_REPLY, LINE = 1_000_000, 60
#: Items of an array. The parser makes a list of the length that a server declares, and the garbage collector
#: visits each item: 10^8 items keep all threads from running for a second (Python 3.11).
MOST_ITEMS = 9_999
LONG, LONGEST_HEADER = re.compile(rb"\*[0-9]{5}").search, 24
CHUNK = 65_536
_feed, _gets = hiredis.Reader.feed, hiredis.Reader.gets  # super() costs 0.3 us for each reply


@cache
def _installed() -> str:
    for package in _PACKAGES:
        try:
            # Not the package alone: Python also imports a folder that has its name.
            import_module(f"{package}.asyncio")
            return package
        except ModuleNotFoundError as error:
            if error.name not in (package, f"{package}.asyncio"):
                raise  # it is here, and lacks something of its own
    raise ImportError("rlock connects by redis-py or valkey-py, and neither is here: run `pip install redis`")


#: The packages in use: none before the first client, because the import takes longer than that of rlock.
_used: list[str] = []


def library_of(client: object, part: str = "") -> Any:
    """The library of a ready client; else the one that connects to URLs. ``part``: ".asyncio" for tasks."""
    origins = (kind.__module__.partition(".")[0] for kind in type(client).__mro__)
    package = next((origin for origin in origins if origin in _PACKAGES), None) or _installed()
    if package not in _used:
        _used.append(package)
    return import_module(package + part)


def errors(*names: str) -> tuple[type[Exception], ...]:
    pairs = [(import_module(package), name) for package in _used for name in names]
    return tuple(getattr(module, name, None) or getattr(module.exceptions, name) for module, name in pairs)


def clean(text: str, secrets: Sequence[str]) -> str:
    """A server's text on one line, without the arguments of a command and without secrets."""
    text = text.partition(", with args beginning with")[0]
    for secret in secrets:
        text = text.replace(secret, "***")
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:LONGEST])
    return printable[:LONGEST]


def secrets_of(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    found = [value for key, value in arguments.items() if key.endswith("password")]
    found.append(getattr(arguments.get("credential_provider"), "password", None))
    texts = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in found)
    # The longest first: one may be a part of another.
    return tuple(sorted((text for text in texts if isinstance(text, str) and text), key=len, reverse=True))


class Reader(hiredis.Reader):
    """A parser of RESP2. Raises no other errors than `hiredis.HiredisError`; the errors in it are clean."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        super().__init__(replyError=lambda text: hiredis.ReplyError(clean(text, secrets)))
        #: The bytes from the first reply that is not complete. `_at`: so many of them were checked; they have
        #: so many lines. `_lacking`: how many items its open arrays still need, the innermost last.
        self._unread: bytes | bytearray = b""
        self._at, self._lines, self._unchecked, self._lacking = 0, 0, 0, list[int]()

    def feed(self, data: bytes) -> None:  # type: ignore[override]
        if self._unread or LONG(data) or b">" in data:
            self._append(data)
        else:
            self._unread = data
        _feed(self, data)

    def gets(self, *args: Any) -> Any:
        """The next reply; False: there is none yet."""
        try:
            reply = _gets(self, *args)
        except (TypeError, MemoryError) as error:  # a map with a key that has no hash
            raise hiredis.ProtocolError(str(error) or "a reply too large for the memory") from None
        if reply is not False and not self.has_data():  # the bytes to come begin with a reply
            self._unread, self._unchecked = b"", 0
        return reply

    def _append(self, data: bytes | bytearray) -> None:
        """Note bytes before the parser gets them. Raises `hiredis.ProtocolError` if a reply is too long."""
        if not isinstance(self._unread, bytearray):
            self._unread = bytearray(self._unread)
            self._at, self._lines, self._lacking = 0, 0, []
        fresh = self._unread[-LONGEST_HEADER:] + data
        self._unread += data
        self._unchecked += len(data)
        if self._unchecked <= CHUNK and not LONG(fresh) and b">" not in fresh:
            return
        data, lacking, self._unchecked = self._unread, self._lacking, 0
        while (end := data.find(b"\r\n", self._at)) >= 0:
            mark, rest = bytes(data[self._at : self._at + 1]), data[self._at + 1 : end][:LONGEST_HEADER]
            self._at, self._lines = end + 2, self._lines + 1
            length = int(rest) if rest.isdigit() else -1
            if mark in b"%~>|=!" or (mark == b"*" and length > MOST_ITEMS):
                raise hiredis.ProtocolError(f"an array of over {MOST_ITEMS} items, or RESP3")
            if mark == b"*" and length > 0:
                lacking.append(length)
                continue
            if mark == b"$" and length >= 0:
                self._at += length + 2
            while lacking and lacking[-1] == 1:
                lacking.pop()
            if lacking:
                lacking[-1] -= 1
            elif self._at <= len(data):
                del data[: self._at]
                self._at = self._lines = 0
        if len(data) + LINE * self._lines > LONGEST_REPLY or self.len() > 8 * LONGEST_REPLY:
            raise hiredis.ProtocolError(f"a reply of over {LONGEST_REPLY // 1_000_000} MB")


class Parser:
    """Reads the handshake of a connection in the place of the library's own parser, which has no bounds."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._parse_error, self._secrets = connection._parser.parse_error, connection.secrets
        self._timeout = timeout

    def on_connect(self, connection: Any) -> None:
        self._stream: Any = connection._reader if hasattr(connection, "_reader") else connection._sock
        self._reader = Reader(self._secrets)

    def on_disconnect(self) -> None:
        self._stream = None

    def _next(self, data: bytes | None = None) -> Any:
        """The next reply, after ``data``; False: there is none yet."""
        try:
            if data is not None:
                self._reader.feed(data)
            reply = self._reader.gets()
        except hiredis.ProtocolError as error:
            raise errors("InvalidResponse")[0](str(error)) from None
        if data == b"" and reply is False:
            raise errors("ConnectionError")[0]("Connection closed by server.")
        if isinstance(reply, hiredis.ReplyError):
            reply = self._parse_error(str(reply))
            if isinstance(reply, errors("ConnectionError")):
                raise reply
        return reply

    def read_response(self, **_: Any) -> Any:
        until, reply = time.monotonic() + self._timeout, self._next()
        while reply is False:
            reply = self._next(self._stream.recv(CHUNK))
            if reply is False and time.monotonic() > until:  # the time-out of a socket counts from each byte
                raise TimeoutError
        return reply


class AsyncParser(Parser):
    async def read_response(self, **_: Any) -> Any:
        reply = self._next()
        while reply is False:  # the library ends it
            reply = self._next(await self._stream.read(CHUNK))
        return reply
