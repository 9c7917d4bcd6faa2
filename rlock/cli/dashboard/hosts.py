"""Addresses to listen on, and names that the Host header may have.

A page of another origin cannot read our answers, unless its name is made to point to us after it was loaded
(DNS rebinding). Then the browser sends that name in the Host header, and we refuse it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^\s\[\]:/@]+))(?::\d{0,5})?")


def resolve(host: str) -> tuple[socket.AddressFamily, str]:
    """The address to bind for a host. Raises ``OSError`` or ``UnicodeError``."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first where a name has both, as `localhost` does: browsers ask the printed URL so.
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return found[0][0], str(found[0][4][0])


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches it."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


class AllowedHosts:
    """The names under which browsers may ask for the page."""

    def __init__(self, names: Iterable[str] = (), *, any_address: bool = False) -> None:
        self._names = LOCAL | {name.strip("[]").lower().rstrip(".") for name in names}
        # An address is not resolved, so it cannot be rebound.
        self._any_address = any_address

    def admit(self, header: str) -> bool:
        """Whether a Host header names us."""
        match = _HOST.fullmatch(header.strip())
        if match is None:
            return False
        host = (match["v6"] or match["name"]).lower().rstrip(".")
        return host in self._names or (self._any_address and _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
