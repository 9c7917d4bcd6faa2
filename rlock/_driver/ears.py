"""Ears: what the waiters of this process hear, and the subscriptions that they share."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod

from ..procedures.steps import Wake
from ..rules.places import Place
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
        "message",
        "name",
        "parked",
        "place",
        "wake_for",
    )

    def __init__(self, place: Place) -> None:
        self.name = place.name
        self.place = place
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

    __slots__ = ("confirmed", "ears", "idle_at", "lost", "name", "names")

    def __init__(self, name: str, station: str, wire: Wire) -> None:
        self.name = name
        #: The lock's channel, then this client's: who confirms the second has confirmed both.
        self.names = (wire.channel(name), wire.station_channel(name, station))
        self.confirmed: set[int] = set()
        #: Masters on which it stood until their connection ended.
        self.lost: set[int] = set()
        #: Weak: an interrupted waiter that never said goodbye must not keep the subscription.
        self.ears: weakref.WeakSet[Ear] = weakref.WeakSet()
        self.idle_at = math.inf

    def ear(self, token: str) -> Ear | None:
        """The waiter that has its place under this token."""
        return next((ear for ear in self.ears if ear.place.token == token), None)
