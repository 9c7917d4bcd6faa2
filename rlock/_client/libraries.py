"""The libraries: hiredis, and redis-py or valkey-py, its fork; both of them have the same names.

No error of a server reaches a message with a password in it, or with characters that a log obeys. A server
without AUTH, and a Sentinel, repeat the arguments of a command that they do not know. All errors of servers
come through a connection of `Endpoint.connection`, or through a `Reader` of its secrets. A `Reader` also
bounds the memory that a server can make a client use.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import hiredis

#: The first one that is installed connects to URLs.
_PACKAGES = ("redis", "valkey")
#: The longest text of a server in a message, in characters.
LONGEST = 200
#: The longest reply, in bytes. A status with all its waiters has some kilobytes.
LONGEST_REPLY = 1_000_000
#: Bytes that are read before any is parsed: the messages of a busy lock pile up while a process is stopped.
MOST_UNREAD = 16_000_000


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
    """The errors with these names, of each library in use."""
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


@cache
def guarded(kind: type[Any]) -> type[Any]:
    """A library's class of connections; the errors that these read are clean of their ``secrets``."""

    @contextmanager
    def cleaned(secrets: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.args = tuple(clean(each, secrets) if isinstance(each, str) else each for each in error.args)
            raise

    async def read_in_task(self: Any, *args: Any, **options: Any) -> Any:
        with cleaned(self.secrets):
            return await kind.read_response(self, *args, **options)

    def read(self: Any, *args: Any, **options: Any) -> Any:
        with cleaned(self.secrets):
            return kind.read_response(self, *args, **options)

    waits = inspect.iscoroutinefunction(kind.read_response)
    return type(kind.__name__, (kind,), {"read_response": read_in_task if waits else read, "secrets": ()})


class Reader(hiredis.Reader):
    """A parser of replies. Raises no other errors than `hiredis.HiredisError`; the errors in it are clean."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        super().__init__(replyError=lambda text: hiredis.ReplyError(clean(text, secrets)))
        #: Bytes since the last whole reply.
        self._fed = 0

    def feed(self, data: str | bytes, *args: Any) -> None:
        self._fed += len(data)
        if self._fed > MOST_UNREAD:
            raise hiredis.ProtocolError(f"over {MOST_UNREAD // 1_000_000} MB at once")
        super().feed(data, *args)

    def gets(self, *args: Any) -> Any:
        """The next reply; False: there is none yet."""
        try:
            reply = super().gets(*args)
        except (TypeError, MemoryError) as error:  # a map with a key that has no hash; an array of 4 * 10^9
            raise hiredis.ProtocolError(str(error) or "a reply too large for the memory") from None
        if reply is not False:
            self._fed = 0
        elif self._fed > LONGEST_REPLY:
            raise hiredis.ProtocolError(f"a reply of over {LONGEST_REPLY // 1_000_000} MB")
        return reply
