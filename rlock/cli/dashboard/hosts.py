"""Who may be listened to: addresses to bind, and names in the Host header.

A page of another origin cannot read what we answer, unless its name is made to point to us after it was
loaded (DNS rebinding). Then the browser says that name in the Host header, and we answer it nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^\s\[\]:/@]+))(?::\d{0,5})?")


class BadHostError(ValueError):
    """A host that cannot be listened on."""


def resolve(host: str) -> tuple[socket.AddressFamily, str]:
    """The address to bind for a host. Raises `BadHostError`."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadHostError(f"{host!r} is no address of this machine: {why}") from None
    # IPv4 first where a name has both, as `localhost` does: that is what the printed URL is asked with.
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    family, _, _, _, address = found[0]
    return family, str(address[0])


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches it."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def hostname(header: str) -> str | None:
    """The host of a Host header, without the port; None: it is none."""
    match = _HOST.fullmatch(header.strip())
    if match is None:
        return None
    return (match["v6"] or match["name"]).lower().rstrip(".") or None


class Guests:
    """The names under which the page may be asked for."""

    def __init__(self, names: Iterable[str] = (), *, any_address: bool = False) -> None:
        self._names = LOCAL | {name.strip("[]").lower().rstrip(".") for name in names}
        # A name has to be resolved before it can be rebound: an address is no way in.
        self._any_address = any_address

    def admits(self, header: str) -> bool:
        """Whether a Host header names us."""
        host = hostname(header)
        if host is None:
            return False
        return host in self._names or (self._any_address and _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
