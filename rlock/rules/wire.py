"""The wire: on which channel, and with which words, those who wait are told of a release.

The hash of a lock is the same for us and for Redisson's RLock since 3.2.0; what differs is how waiters hear
of a release. Source: Redisson's `RedissonBaseLock`, `RedissonObject.prefixName` and `LockPubSub`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from .keys import REDISSON_OWNER, own_key

#: How all channels of Redisson's locks begin.
REDISSON_CHANNEL = "redisson_lock__channel:"


class Wire(ABC):
    """One way of telling."""

    #: Others than rlock hold, wait for and delete the locks.
    shared = False

    @abstractmethod
    def channel(self, name: str) -> str:
        """The channel on which the release of a lock is published for all."""

    @abstractmethod
    def message(self, owner: str) -> str:
        """What is published there when this owner has released."""

    def client_channel(self, name: str, client_id: str) -> str:
        """The channel on which the waiters of one client are told that a lock was handed to them.

        One for each client, or the release of a lock would wake every process that waits for it; and so
        that a PUBLISH that reaches nobody tells a dead process.
        """
        return f"{self.channel(name)}|{client_id}"


class _Own(Wire):
    def channel(self, name: str) -> str:
        return own_key(name, "released")

    def message(self, owner: str) -> str:
        return owner


class _Redisson(Wire):
    shared = True

    def channel(self, name: str) -> str:
        return REDISSON_CHANNEL + (name if "{" in name else f"{{{name}}}")

    def message(self, owner: str) -> str:
        # Anything but a decimal number makes Java's decoder throw.
        return "0"


OWN: Wire = _Own()
REDISSON: Wire = _Redisson()

#: By the value of `Client(interop=...)`.
WIRES: dict[str | None, Wire] = {None: OWN, "redisson": REDISSON}


def holder_identity(holder: str) -> str:
    """What is the same on all masters for one holder.

    A RedissonRedLock has another uuid on every master, and the same thread.
    """
    if holder[36:37] != ":":
        return holder  # none of theirs; each refused vote comes by here, several times
    found = REDISSON_OWNER.fullmatch(holder)
    return holder if found is None else f"redisson:{found[1]}"
