"""The subscriber connections of a simulated client, as `rlock/_sync/listener.py` has them.

Messages are read only while some thread of the client is parked (or subscribes), and now and then by the
thread that keeps house.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlock._sync.ears import Ear
from rlock._sync.listener import LOOK_S
from rlock.procedures.steps import Wake
from rlock.rules.keys import channel, station_channel
from rlock.rules.places import Bequest, Place
from rlock.rules.quorum import quorum
from rlock.rules.timing import CHANNEL_LINGER_S, GRACE_S, grace

from .events import Action, Wire

if TYPE_CHECKING:
    from .client import Client


class Subscription:
    """The channels of one lock, and the waiters that hear."""

    def __init__(self, name: str, station: str) -> None:
        self.names = (channel(name), station_channel(name, station))
        self.name = name
        self.confirmed: set[int] = set()
        self.ears: list[Ear] = []
        self.idle_at = math.inf


class Link:
    """The subscriber connection to one master; dialled when it is needed first."""

    def __init__(self, listener: Listener, master: int) -> None:
        client = listener.client
        world = client.world
        self._listener = listener
        self._client = client
        self._master = master
        self._host = world.hosts[master]
        self._there = Wire(client.events, world.random, world.network.messages)
        self._back = Wire(client.events, world.random, world.network.messages)
        dialling = sum(world.network.messages.draw(world.random) for _ in range(2 * world.network.dials))
        self._up_at = client.events.now + dialling

    def subscribe(self, found: Subscription) -> None:
        def execute() -> None:
            for name in found.names:
                self._host.master.subscribe(name, self)
            self._deliver(lambda: found.confirmed.add(self._master))

        left = self._up_at - self._client.events.now
        self._client.after(max(0.0, left), lambda: self._there.send(lambda: self._host.do(execute)))

    def unsubscribe(self, found: Subscription) -> None:
        def execute() -> None:
            for name in found.names:
                self._host.master.unsubscribe(name, self)

        self._there.send(lambda: self._host.do(execute))

    def hang_up(self) -> None:
        """The process has gone; its kernel tells the server."""

        def forget() -> None:
            for name in list(self._host.master.subscribers):
                self._host.master.unsubscribe(name, self)

        self._there.send(lambda: self._host.do(forget))

    def hear(self, channel: str, payload: str) -> None:
        self._deliver(lambda: self._listener.hear(self._master, channel, payload))

    def _deliver(self, event: Action) -> None:
        self._back.send(lambda: self._client.do(lambda: self._listener.arrive(event)))


@dataclass
class Reader:
    """A parked thread."""

    ear: Ear
    done: Callable[[], bool]
    answer: Callable[[], Any]
    resume: Callable[[Callable[[], Any]], bool]


class Listener:
    """What one client hears."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.subscriptions: dict[str, Subscription] = {}
        self._links: list[Link] = []
        self._quorum = quorum(len(client.world.hosts))
        self._readers: list[Reader] = []
        self._inbox: deque[Action] = deque()
        self._strays: list[tuple[str, str]] = []
        self._keeping_house = False

    # -- for the waiters ---------------------------------------------------------------------------------

    def standing(self, name: str) -> bool:
        found = self.subscriptions.get(name)
        return found is not None and self.settled(found)

    def settled(self, found: Subscription) -> bool:
        return len(found.confirmed) >= self._quorum

    def listen(self, ear: Ear) -> Subscription:
        found = self.subscriptions.get(ear.name)
        if found is None:
            if not self._links:
                self._links = [Link(self, master) for master in range(len(self.client.world.hosts))]
            found = self.subscriptions[ear.name] = Subscription(ear.name, self.client.terms.station)
            for link in self._links:
                link.subscribe(found)
        found.idle_at = math.inf
        if ear not in found.ears:
            found.ears.append(ear)
        if not self._keeping_house:
            self._keeping_house = True
            self.client.after(LOOK_S, self._keep_house)
        return found

    def read_until(
        self,
        ear: Ear,
        done: Callable[[], bool],
        timeout: float,
        answer: Callable[[], Any],
        resume: Callable[[Callable[[], Any]], bool],
    ) -> None:
        """Park a thread until ``done`` or the time is over; it is resumed with the answer of then."""
        ear.parked = True
        reader = Reader(ear, done, answer, resume)
        self._readers.append(reader)
        # Not at once, because the thread is in the middle of its step.
        self.client.after(0.0, self._read)
        self.client.after(timeout, lambda: self._unpark(reader))

    def _unpark(self, reader: Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            reader.ear.parked = False
            reader.resume(reader.answer)

    def leave(self, ear: Ear) -> None:
        found = self.subscriptions.get(ear.name)
        if found is None or ear not in found.ears:
            return
        found.ears.remove(ear)
        if not found.ears:
            found.idle_at = self.client.events.now + CHANNEL_LINGER_S
        if ear.handed:
            self._strays.append((ear.name, ear.place.token))

    def hang_up(self) -> None:
        for link in self._links:
            link.hang_up()

    # -- for a holder of the same client -----------------------------------------------------------------

    def heir(self, name: str) -> Place | None:
        found = self.subscriptions.get(name)
        ears = [] if found is None else found.ears
        asleep = [ear.place for ear in ears if ear.parked and ear.place.drawn and not ear.handed]
        return min(asleep, key=lambda place: (place.ticket, place.waiter), default=None)

    def bequeath(self, place: Place, bequest: Bequest) -> bool:
        found = self.subscriptions.get(place.name)
        for ear in [] if found is None else found.ears:
            if ear.place is place:
                place.bequest = bequest
                ear.wake(Wake.GRANTED)
                self.client.after(0.0, self._read)
                return True
        return False

    # -- reading -----------------------------------------------------------------------------------------

    def arrive(self, event: Action) -> None:
        self._inbox.append(event)
        if self._readers:
            self._read()

    def _read(self) -> None:
        while self._inbox:
            self._inbox.popleft()()
        strays, self._strays = self._strays, []
        for name, token in strays:
            self.client.pass_on(name, token)
        for reader in [reader for reader in self._readers if reader.done()]:
            self._unpark(reader)

    def _keep_house(self) -> None:
        for found in list(self.subscriptions.values()):
            if found.idle_at <= self.client.events.now:
                del self.subscriptions[found.name]
                for link in self._links:
                    link.unsubscribe(found)
        if not self.subscriptions:
            self._links, self._keeping_house = [], False
            self._inbox.clear()
            return
        if not self._readers:
            self._read()
        self.client.after(LOOK_S, self._keep_house)

    def hear(self, master: int, name: str, payload: str) -> None:
        for found in self.subscriptions.values():
            if name == found.names[1]:
                self._handed(found, master, payload)
            elif name == found.names[0]:
                for ear in found.ears:
                    self._tell(ear, master, payload.encode())

    def _handed(self, found: Subscription, master: int, token: str) -> None:
        ear = next((ear for ear in found.ears if ear.place.token == token), None)
        if ear is None:
            self._strays.append((found.name, token))
            return
        ear.handed.add(master)
        if len(ear.handed) == self._quorum:
            ear.wake(Wake.HANDED)
        elif len(ear.handed) < self._quorum:
            self._hope(ear, grace(ear.place.round_s, ear.place.splits))

    def _tell(self, ear: Ear, master: int, message: bytes) -> None:
        if message != ear.message:
            ear.message, ear.heard = message, set()
        if master in ear.heard:
            ear.heard.clear()
        ear.heard.add(master)
        if len(ear.heard) == self._quorum:
            ear.wake(Wake.FREE)
        elif len(ear.heard) == 1:
            self._hope(ear, GRACE_S)

    def _hope(self, ear: Ear, patience: float) -> None:
        ear.grace_at = min(ear.grace_at, self.client.events.now + patience)

        def give_up_hoping() -> None:
            if ear.grace_at <= self.client.events.now:
                ear.wake(Wake.HANDED if ear.handed else Wake.FREE)
                self._read()

        self.client.after(patience, give_up_hoping)
