"""Names on the wire: owners, waiters, keys, and the channels on which a release is announced."""

import re
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

#: The characters that a host's or thread's name may not bring into an owner token.
_UNSAFE = re.compile(r"[^\w.@-]+")
_UUID = re.compile(r"[0-9a-f]{32}")
_TIMED_UUID = re.compile(r"([0-9a-f]{12})7[0-9a-f]{19}")  # A UUID of version 7, see `owner_token`
#: The holder in a lock of Redisson: `<uuid of the client>:<id of the thread>`.
_REDISSON_OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\d+)", re.ASCII)

#: The key that tells since when a master keeps its data (rules/restart_guard.py). It has no expiry.
NOTE = "rlock:fleet"
#: The greatest fencing token, in the year 2223. A stored one over 9e15, the end of a double, is discarded.
MAX_TOKEN = 8 * 10**15
#: The longest owner token: 64 and 32 characters of a host and of a thread, a pid, and the uuid.
MAX_TOKEN_BYTES = 512
#: The end of `<client>` in the owner tokens and places of readers. No host and no thread can bring the plus.
SHARED = "+shared"
BANNED = 20  # so much of a uuid is that of a writer, and of all readers that its owner becomes
READERS = f"readers:{'0' * 32}"  # the one field of a lock that readers hold, see `lua/acquire.lua`
#: The start of the name under which a process notes the hold of a reader. No lock may have such a name.
_READER_OF = "rlock:reader-of:"
EVICTED = "evicted"  # the grant in a message for a place whose owner was evicted
REDISSON_CHANNEL = "redisson_lock__channel:"


@lru_cache(maxsize=1024)
def own_key(what: str, name: str) -> str:
    """A key or channel of a lock. The name is the hash tag: all keys of a lock are in one slot."""
    if "{" in name or "}" in name:
        # Two colons: otherwise the locks "x" and "{x}" would share their keys.
        return f"rlock::{name}:{what}"
    return f"rlock:{{{name}}}:{what}"


#: The keys of a lock beside its hash. `readers`: the owners that share it, by the end of their leases there.
queue = partial(own_key, "queue")
fence = partial(own_key, "fence")
readers = partial(own_key, "readers")


def writer_identity(owner: str) -> str:
    """The part of an owner token that is the same for a writer and for the reader that it becomes."""
    client, _, uuid = owner.replace(SHARED, "").rpartition(":")
    return f"{client}:{uuid[:BANNED]}"


def evicted(name: str, owner: str) -> str:
    """The key that exists while an evicted owner must not come back, as a writer or as its reader."""
    return own_key(f"evicted:{writer_identity(owner)}", name)


def is_shared(owner: str) -> bool:
    return f"{SHARED}:" in owner


def hold_name(name: str, shared: bool) -> str:
    """The name of a hold in its process: a reader and a writer of one lock have two holds."""
    return _READER_OF + name if shared else name


def lock_name(name: str) -> str:
    return name.removeprefix(_READER_OF)


def waiter_name(owner: str, client_id: str) -> str:
    """A waiter's name in the queue: the owner of a hand-off to it, and its client's id."""
    return f"{owner}|{client_id}"


def owner_of_waiter(waiter: str) -> str:
    return waiter.rpartition("|")[0]


class HandOff(NamedTuple):
    """The message with which a master hands the lock to a waiter, see `lua/release.lua`."""

    token: int = 0  # the fencing token; 0: it is no grant
    time_us: int = 0  # the master's time of the grant
    note: str = ""  # without a token: `evicted`, or nothing
    read_at: float = 0.0

    @classmethod
    def parse(cls, payload: Any, read_at: float) -> tuple[bytes, Self]:
        place, _, grant = payload.partition(b" ") if type(payload) is bytes else (b"", b"", b"")
        words = grant.decode("utf-8", "replace").split(" ", 2)
        numbers = [int(word) for word in words[:2] if word.isdecimal() and len(word) <= 16]
        if len(words) < 3 or len(numbers) < 2 or max(numbers) > MAX_TOKEN:
            return place, cls(note=EVICTED if grant == EVICTED.encode() else "", read_at=read_at)
        return place, cls(numbers[0], numbers[1], words[2], read_at)


def client_label(host: str, pid: int, thread: str) -> str:
    """`<client>` of an owner token: host, process and thread, for a person who reads the keys of a master."""
    host = _UNSAFE.sub("_", host) or "host"
    return f"{host[:64]}/{pid}/{_UNSAFE.sub('_', thread)[:32]}"


def owner_token(client: str, unix_ms: int, random: str) -> str:
    """`<client>:<uuid>`. The uuid (RFC 9562, version 7) begins with its time, which `since` reads.

    ``random``: 18 hexadecimal digits.
    """
    return f"{client}:{unix_ms & 0xFFFF_FFFF_FFFF:012x}7{random[:3]}8{random[3:]}"


@lru_cache(maxsize=1024)  # each refusal names the holder: 0.1 us a call instead of 2 us
def is_owner(field: str) -> bool:
    """Whether the field of a hash is an owner token. Otherwise another program wrote the hash."""
    client, _, uuid = field.rpartition(":")
    return bool(client and _UUID.fullmatch(uuid)) or _REDISSON_OWNER.fullmatch(field) is not None


def since(owner: str) -> float | None:
    """The Unix time in seconds at which an owner token was made; None for a token of another program."""
    found = _TIMED_UUID.fullmatch(owner.rpartition(":")[2])
    return None if found is None else int(found[1], 16) / 1000


def holder_identity(holder: str) -> str:
    """The part of a holder that is the same on all masters: RedissonRedLock has a uuid for each of them."""
    if is_shared(holder):
        return READERS  # masters name all readers together
    # Without the regular expression: each refused vote comes here several times.
    if holder[36:37] != ":":
        return holder
    found = _REDISSON_OWNER.fullmatch(holder)
    return holder if found is None else f"redisson:{found[1]}"


class Wire(NamedTuple):
    """The channels and messages of a lock. Its hash is Redisson's in both cases, since Redisson 3.2.0."""

    shared: bool = False  # Redisson uses the same locks; it does not know rlock's queue
    message: str = "owner"  # the message to all waiters, see `lua/release.lua`

    def channel(self, name: str) -> str:
        if self.shared:  # as Redisson's `RedissonObject.prefixName`
            return REDISSON_CHANNEL + (name if "{" in name else f"{{{name}}}")
        return own_key("released", name)

    def announces(self, message: Any) -> bool:
        if type(message) is not bytes or len(message) > MAX_TOKEN_BYTES:
            return False
        return message.isdigit() if self.shared else is_owner(message.decode("utf-8", "replace"))

    def client_channel(self, name: str, client_id: str) -> str:
        """The channel of hand-offs to one client. It wakes no other; a PUBLISH shows whether it is dead."""
        return f"{self.channel(name)}|{client_id}"


OWN = Wire()
#: Redisson's decoder (`LockPubSub`) raises an error on a message that is no decimal number.
REDISSON = Wire(shared=True, message="0")

WIRES: dict[str | None, Wire] = {None: OWN, "redisson": REDISSON}  # by the value of `Client(interop=...)`
