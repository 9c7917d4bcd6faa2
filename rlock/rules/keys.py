"""Names on the wire: owners, channels, keys."""

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
REDISSON_OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\d+)", re.ASCII)
#: The digit of a UUID that tells its variant, by any other one: two bits are fixed.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

#: The one key of a master that belongs to no lock, and that has no expiry: its end tells of a loss of
#: memory (rules/restart_guard.py).
NOTE = "rlock:fleet"


@lru_cache(maxsize=1024)
def own_key(name: str, what: str) -> str:
    """A name of ours for something that belongs to a lock.

    The lock's name is its hash tag, so that all that belongs to one lock stays together. A name that
    holds a brace carries a tag of its own, or one that cannot be nested: it stays as it is, behind a
    second colon, or "x" and "{x}" would share what is theirs.
    """
    if "{" in name or "}" in name:
        return f"rlock::{name}:{what}"
    return f"rlock:{{{name}}}:{what}"


def queue(name: str) -> str:
    """The key of the queue of those who wait for a lock."""
    return own_key(name, "queue")


def fence(name: str) -> str:
    """The key of the last fencing token of a lock."""
    return own_key(name, "fence")


def evicted(name: str, owner: str) -> str:
    """The key that is there while an owner whom an operator has thrown out must not come back."""
    return own_key(name, f"evicted:{owner}")


def fresh_client_id() -> str:
    """What tells one client in one process from all others, also from those with its host name and pid."""
    return os.urandom(8).hex()


def waiter_name(token: str, client_id: str) -> str:
    """How the queue names a waiter: the token under which it is handed the lock, and whom to tell."""
    return f"{token}|{client_id}"


def token_of(waiter: str) -> str:
    """The token of a waiter's name."""
    return waiter.rpartition("|")[0]


def client_label(thread: str) -> str:
    """`<client>` of an owner token: host, process and thread, for people who look at a master."""
    host = _UNSAFE.sub("_", socket.gethostname()) or "host"
    return f"{host[:64]}/{os.getpid()}/{_UNSAFE.sub('_', thread)[:32]}"


def owner_token(client: str) -> str:
    """A fresh `<client>:<uuid>`.

    The uuid is an RFC 9562 version 7 one: its first 48 bits are the wall clock in milliseconds, which
    is how `status` knows since when a lock is held without a further key on the masters.
    """
    millis = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    bits = os.urandom(10).hex()
    return f"{client}:{millis:012x}7{bits[:3]}{_VARIANT[bits[3]]}{bits[4:19]}"


@lru_cache(maxsize=1024)  # each refused acquire names the same holder: 0.1 us, not 2
def is_owner(field: str) -> bool:
    """Whether a field looks like an owner token; else the hash is somebody's data."""
    client, _, uuid = field.rpartition(":")
    if client and _UUID.fullmatch(uuid):
        return True
    return REDISSON_OWNER.fullmatch(field) is not None


def is_lock(holder: str, count: int | None) -> bool:
    """Whether a hash with this field and this number in it is one that a lock wrote. None: no number."""
    return count is not None and count >= 0 and is_owner(holder)


def same_process(owner: str, client: str) -> bool:
    """Whether an owner token is that of a thread of the same process as this `<client>`."""
    process = client.rpartition("/")[0]
    return owner.startswith(f"{process}/")


def since(owner: str) -> float | None:
    """The Unix time in seconds at which an owner token was made; None for a token that is not ours."""
    uuid = owner.rpartition(":")[2]
    if len(uuid) != _UUID_LENGTH or uuid[12] != "7":
        return None
    try:
        return int(uuid[:12], 16) / 1000
    except ValueError:
        return None
