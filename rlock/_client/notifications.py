"""Ears: what the waiters of this process hear, and the subscriptions that they share."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod

from ..procedures.steps import Wake
from ..rules.tickets import Place
from ..rules.wire import Wire

#: Of two reasons to go on, the one that says more.
_RANK = {Wake.TIME: 0, Wake.FREE: 1, Wake.HANDED: 2, Wake.GRANTED: 3}


class Ear(ABC):
    """What one waiter hears."""

    __slots__ = (
        "__weakref__",
        "grace_at",
        "handed",
        "heard",
        "hint",
        "message",
        "name",
        "parked",
        "place",
        "token",
        "wake_for",
    )

    def __init__(self, place: Place) -> None:
        self.name = place.name
        self.place = place
        #: That of the place, as it comes over the wire.
        self.token = place.token.encode()
        #: What comes over the wire when a master hands it the lock; see `Subscription.add`.
        self.hint = b""
        #: The masters that handed the lock to this place, since it went on to take it.
        self.handed: set[int] = set()
        #: The masters that published the message below to all.
        self.heard: set[int] = set()
        self.message: bytes | None = None
        #: When what too few masters said is believed all the same.
        self.grace_at = math.inf
        #: Why the waiter is to go on, and has not been told yet.
        self.wake_for = Wake.TIME
        #: Its owner sleeps, or reads for those who do.
        self.parked = False

    def take_wake(self) -> Wake:
        """Why to go on; told once."""
        why, self.wake_for = self.wake_for, Wake.TIME
        if why is Wake.HANDED:
            self.handed = set()  # the round that follows takes it
        self.settle()
        return why

    def wake(self, why: Wake) -> None:
        """Tell the waiter that trying may now succeed."""
        self.grace_at = math.inf
        if _RANK[why] > _RANK[self.wake_for]:
            self.wake_for = why
        self.stir()

    @abstractmethod
    def stir(self) -> None:
        """Let the waiter look round: there may be a reason to go on, or nobody may be reading."""

    @abstractmethod
    def settle(self) -> None:
        """What stirred it until now is known."""


class Subscription:
    """The channels of one lock on all masters, and those who listen."""

    __slots__ = ("_ears", "_hint", "client_id", "confirmed", "idle_at", "lost", "name", "names", "public")

    def __init__(self, name: str, client_id: str, wire: Wire) -> None:
        self.name = name
        #: The lock's channel, then this client's: who confirms the second has confirmed both.
        self.names = (wire.channel(name), wire.client_channel(name, client_id))
        #: The same as they come over the wire.
        self.public, self.client_id = (channel.encode() for channel in self.names)
        #: How a message on the latter begins.
        self._hint = b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n" % (len(self.client_id), self.client_id)
        self.confirmed: set[int] = set()
        #: Masters on which it stood until their connection ended.
        self.lost: set[int] = set()
        self.idle_at = math.inf
        #: By the token of the place, as it comes over the wire. Weak: an interrupted waiter that never said
        #: goodbye must not keep the subscription.
        self._ears: dict[bytes, weakref.ref[Ear]] = {}

    @property
    def ears(self) -> list[Ear]:
        """Those who listen."""
        return [ear for ref in list(self._ears.values()) if (ear := ref()) is not None]

    def ear(self, token: bytes) -> Ear | None:
        """The waiter that has its place under this token."""
        ref = self._ears.get(token)
        return None if ref is None else ref()

    def add(self, ear: Ear) -> bool:
        """Have it listen; False: it does."""
        if self.ear(ear.token) is ear:
            return False
        ear.hint = b"%b$%d\r\n%b\r\n" % (self._hint, len(ear.token), ear.token)
        self._ears[ear.token] = weakref.ref(ear)
        return True

    def remove(self, ear: Ear) -> bool:
        """Have it listen no more; False: it did not."""
        return self._ears.pop(ear.token, None) is not None

    def deserted(self) -> bool:
        """Whether nobody listens. Forgets those who went without a word."""
        for token in [token for token, ref in self._ears.items() if ref() is None]:
            del self._ears[token]
        return not self._ears
