"""Names on the wire: owners, waiters, keys, and the channels on which a release is announced."""

from __future__ import annotations

import os
import re
import socket
import time
from functools import lru_cache

_UNSAFE = re.compile(r"[^\w.@-]+")
_UUID_LENGTH = 32
_UUID = re.compile(r"[0-9a-f]{32}")
#: The holder in a lock of Redisson: `<uuid of the client>:<id of the thread>`.
_REDISSON_OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\d+)", re.ASCII)
#: From any hex digit to a UUID digit that names the variant: two of its bits are fixed.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

#: The only key that belongs to no lock and has no expiry: if it is gone, the master lost its memory
#: (rules/restart_guard.py).
NOTE = "rlock:fleet"


# -- keys --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def own_key(name: str, what: str) -> str:
    """A key or channel of ours that belongs to a lock.

    The lock's name is the hash tag: a cluster keeps all keys of one lock together. A name with a brace has
    a second colon, or "x" and "{x}" would share their keys.
    """
    if "{" in name or "}" in name:
        return f"rlock::{name}:{what}"
    return f"rlock:{{{name}}}:{what}"


def queue(name: str) -> str:
    """The key of a lock's queue of waiters."""
    return own_key(name, "queue")


def fence(name: str) -> str:
    """The key of a lock's last fencing token."""
    return own_key(name, "fence")


def evicted(name: str, owner: str) -> str:
    """The key that exists while an evicted owner must not come back."""
    return own_key(name, f"evicted:{owner}")


# -- owners and waiters ------------------------------------------------------------------------------------


def fresh_client_id() -> str:
    """An id that differs for every client, also for two with the same host name and pid."""
    return os.urandom(8).hex()


def waiter_name(token: str, client_id: str) -> str:
    """A waiter's name in the queue: the token of a hand-off to it, and the client to notify."""
    return f"{token}|{client_id}"


def token_of(waiter: str) -> str:
    """The token in a waiter's name."""
    return waiter.rpartition("|")[0]


def client_label(thread: str) -> str:
    """`<client>` of an owner token: host, process and thread, for people who look at a master."""
    host = _UNSAFE.sub("_", socket.gethostname()) or "host"
    return f"{host[:64]}/{os.getpid()}/{_UNSAFE.sub('_', thread)[:32]}"


def owner_token(client: str) -> str:
    """A fresh `<client>:<uuid>`.

    The uuid has version 7 of RFC 9562: `status` reads the time of the acquire from its first 48 bits.
    """
    millis = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    bits = os.urandom(10).hex()
    return f"{client}:{millis:012x}7{bits[:3]}{_VARIANT[bits[3]]}{bits[4:19]}"


@lru_cache(maxsize=1024)  # each refused acquire names the same holder: 0.1 us, not 2
def is_owner(field: str) -> bool:
    """Whether a field looks like an owner token; otherwise no lock wrote the hash."""
    client, _, uuid = field.rpartition(":")
    return bool(client and _UUID.fullmatch(uuid)) or _REDISSON_OWNER.fullmatch(field) is not None


def is_lock(holder: str, count: int | None) -> bool:
    """Whether a lock wrote a hash with this field and this number. None: the value is no number."""
    return count is not None and count >= 0 and is_owner(holder)


def same_process(owner: str, client: str) -> bool:
    """Whether an owner token belongs to a thread of the same process as this `<client>`."""
    return owner.startswith(client.rpartition("/")[0] + "/")


def since(owner: str) -> float | None:
    """The Unix time in seconds at which an owner token was made; None for a token of another program."""
    uuid = owner.rpartition(":")[2]
    if len(uuid) != _UUID_LENGTH or uuid[12] != "7":
        return None
    try:
        return int(uuid[:12], 16) / 1000
    except ValueError:
        return None


def holder_identity(holder: str) -> str:
    """The part of a holder that is the same on all masters.

    A RedissonRedLock has a different uuid on each master, and the same thread id.
    """
    if holder[36:37] != ":":
        return holder  # not Redisson's: the usual case, several times for each refused vote
    found = _REDISSON_OWNER.fullmatch(holder)
    return holder if found is None else f"redisson:{found[1]}"


# -- channels ----------------------------------------------------------------------------------------------

#: The start of the channels of all locks of Redisson.
REDISSON_CHANNEL = "redisson_lock__channel:"


class Wire:
    """How the release of a lock is announced. The hash of a lock is Redisson's, since its 3.2.0."""

    #: Whether programs that do not know our queue use the same locks.
    shared = False
    #: The message to all waiters, see `lua/release.lua`.
    message = "owner"

    def channel(self, name: str) -> str:
        """The channel for all waiters of a lock."""
        return own_key(name, "released")

    def client_channel(self, name: str, client_id: str) -> str:
        """The channel of the hand-offs to one client.

        One channel for all would wake every process. A PUBLISH here shows whether the process is dead.
        """
        return f"{self.channel(name)}|{client_id}"


class _Redisson(Wire):
    """Source: Redisson's `RedissonBaseLock`, `RedissonObject.prefixName` and `LockPubSub`."""

    shared = True
    #: Java's decoder raises an error on anything but a decimal number.
    message = "0"

    def channel(self, name: str) -> str:
        return REDISSON_CHANNEL + (name if "{" in name else f"{{{name}}}")


OWN = Wire()
REDISSON: Wire = _Redisson()

#: By the value of `Client(interop=...)`.
WIRES: dict[str | None, Wire] = {None: OWN, "redisson": REDISSON}
