"""The libraries: hiredis, and redis-py or valkey-py, its fork; both of them have the same names.

No error of a server reaches a message with a password in it, or with characters that a log obeys. A server
without AUTH, and a Sentinel, repeat the arguments of a command that they do not know. All errors of servers
come through a `Reader` of the secrets.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

#: The first one that is installed connects to URLs.
_PACKAGES = ("redis", "valkey")
#: The longest text of a server in a message, in characters.
LONGEST = 200


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
