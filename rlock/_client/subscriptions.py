"""Listener: hears for the owners of this process that wait for locks.

One subscriber connection for each master carries all channels: for each lock that of the lock, and that
of this client, on which it is told what was handed to its waiters. A subscription ends a little after its
last waiter.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..model import Fault, FaultKind
from ..procedures.steps import ClientContext, Wake
from ..rules.tickets import LocalGrant, Place
from ..rules.timing import CHANNEL_LINGER_S, GRACE_S, grace
from .connection import Connection, pack
from .connections import Connections, MasterConnection
from .notifications import Ear, Subscription
from .waits import Waits

log = logging.getLogger("rlock")

#: How often somebody looks which subscriptions are needed no more.
LOOK_S = 0.5

L = TypeVar("L", bound=Connection)


class Subscriptions(ABC, Generic[L]):
    """The subscriber connections of one client in one process.

    ``stray`` is called, by whoever reads, with the lock and the token of a place that was handed it and for
    which nobody here waits any more.
    """

    _connections: Connections[L]

    def __init__(self, context: ClientContext, stray: Callable[[str, str], None]) -> None:
        self._clock = context.clock
        self._client_id = context.client_id
        self._wire = context.wire
        self._stray = stray
        self._strays: list[tuple[str, str]] = []
        self._quorum = context.quorum
        self._mutex = threading.Lock()
        self._by_name: dict[str, Subscription] = {}
        self._by_channel: dict[bytes, Subscription] = {}
        self._by_client_channel: dict[bytes, Subscription] = {}
        #: By the message that hands them the lock. Weak, as in `Subscription`.
        self._by_hint: dict[bytes, weakref.ref[Ear]] = {}
        #: Masters that let us subscribe to nothing: nobody waits for their confirmation.
        self._deaf: set[int] = set()
        #: Waiters that heard from fewer masters than a quorum.
        self._hoping: set[Ear] = set()

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def ear(self, place: Place) -> Ear:
        """What a waiter of this driver hears with."""

    @abstractmethod
    def _reading_until(self, ear: Ear, done: Callable[[], bool], timeout: float) -> Waits[None]:
        """Wait until ``done``, at most ``timeout`` seconds; ``ear.parked`` meanwhile. Without the mutex."""

    @abstractmethod
    def _run(self) -> None:
        """See to it that `_tidy` is called each `LOOK_S` until it is False. With the mutex."""

    # -- for the waiters ---------------------------------------------------------------------------

    def standing(self, name: str) -> bool:
        """Whether a quorum of masters has confirmed the channels of this lock already."""
        found = self._by_name.get(name)
        return found is not None and len(found.confirmed) >= self._quorum

    def listening(self, ear: Ear, timeout: float) -> Waits[int]:
        """Subscribe, and wait until a quorum of masters has confirmed it, or all that can, or the time.

        On how many masters it stands. `leave` is owed in any case, also after an exception.
        """
        with self._mutex:
            found = self._by_name.get(ear.name)
            if found is None:
                found = Subscription(ear.name, self._client_id, self._wire)
                self._by_name[ear.name] = found
                self._by_channel[found.public] = self._by_client_channel[found.client_id] = found
                self._send_all(pack(("SUBSCRIBE", *found.names)))
            found.idle_at = math.inf
            if found.add(ear):
                self._by_hint[ear.hint] = weakref.ref(ear)
                if not self._connections.closed:
                    self._run()
                    if not self._connections.whole:
                        self._connections.connect_due()
        if timeout > 0:
            yield from self._reading_until(ear, lambda: self._settled(found), timeout)
        return len(found.confirmed)

    def parking(self, ear: Ear, timeout: float) -> Waits[Wake]:
        """Sleep until there is a reason to try; which."""
        yield from self._reading_until(ear, lambda: ear.wake_for is not Wake.TIME, timeout)
        with self._mutex:
            return ear.take_wake()

    def leave(self, ear: Ear) -> None:
        """Listen no more."""
        with self._mutex:
            found = self._by_name.get(ear.name)
            self._by_hint.pop(ear.hint, None)
            self._hoping.discard(ear)
            if found is None or not found.remove(ear):
                return
            if found.deserted():
                found.idle_at = self._clock() + CHANNEL_LINGER_S
            if ear.handed:
                # Most likely what the last round has taken already; if not, it has no hurry.
                self._strays.append((ear.name, ear.place.token))

    # -- for a holder of this process ----------------------------------------------------------------

    def next_waiter(self, name: str) -> Place | None:
        """The one of our own waiters that came first, if it is asleep."""
        if name not in self._by_name:
            return None
        with self._mutex:
            asleep = [
                ear.place for ear in self._ears(name) if ear.parked and ear.place.drawn and not ear.handed
            ]
        return min(asleep, key=lambda place: (place.ticket, place.waiter), default=None)

    def hand_over(self, place: Place, local_grant: LocalGrant) -> bool:
        """Tell a waiter that a holder of this process released in its favour. False: it has gone."""
        with self._mutex:
            for ear in self._ears(place.name):
                if ear.place is place:
                    place.leave(local_grant)
                    ear.wake(Wake.GRANTED)
                    return True
        return False

    def waiting(self, name: str) -> list[Place]:
        """Our own waiters that have a place."""
        with self._mutex:
            return [ear.place for ear in self._ears(name) if ear.place.drawn]

    def _ears(self, name: str) -> list[Ear]:
        found = self._by_name.get(name)
        return [] if found is None else found.ears

    def _settled(self, found: Subscription) -> bool:
        connections = self._connections
        if connections.closed or len(found.confirmed) >= self._quorum:
            return True
        return not connections.is_connecting and all(
            server.connection is None or server.index in found.confirmed or server.index in self._deaf
            for server in connections.servers
        )

    # -- what was read -----------------------------------------------------------------------------

    def _due(self) -> float:
        """When to do something without having read anything."""
        due = math.inf if self._connections.whole else self._connections.next_probe()
        for ear in self._hoping:
            due = min(due, ear.grace_at)
        return due

    def _hope_no_more(self) -> None:
        """Have those go on that heard from too few masters for long enough. With the mutex."""
        if self._hoping:
            now = self._clock()
            for ear in [ear for ear in self._hoping if ear.grace_at <= now]:
                ear.wake(Wake.HANDED if ear.handed else Wake.FREE)
            self._hoping = {ear for ear in self._hoping if ear.grace_at < math.inf}

    def _pass_on_strays(self) -> None:
        """Give on what was handed to those who have gone. Without the mutex."""
        with self._mutex:
            strays, self._strays = self._strays, []
        for name, token in strays:
            self._stray(name, token)

    def _tidy(self) -> bool:
        """End the subscriptions that nobody needs; whether one is left. With the mutex."""
        now = self._clock()
        if self._connections.closed:
            return False
        # Of those who went without a word.
        for hint in [hint for hint, ear in self._by_hint.items() if ear() is None]:
            del self._by_hint[hint]
        for found in list(self._by_name.values()):
            if found.idle_at <= now:
                del self._by_name[found.name]
                del self._by_channel[found.public], self._by_client_channel[found.client_id]
                self._send_all(pack(("UNSUBSCRIBE", *found.names)))
            elif found.idle_at == math.inf and found.deserted():
                found.idle_at = now + CHANNEL_LINGER_S
        if not self._by_name:
            self._connections.disconnect()
            return False
        self._connections.connect_due()
        return True

    def _take(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        """What has arrived: most often one message, that one of ours is waiting for."""
        hinted = self._by_hint.get(data)
        ear = None if hinted is None else hinted()
        if ear is not None and not connection.reader.has_data():
            self._hand(ear, server.index)
            return
        if data:
            connection.reader.feed(data)
        while server.connection is connection and (message := connection.reader.gets()) is not False:
            self._hear(server, message)

    def _hear(self, server: MasterConnection[L], message: Any) -> None:
        if type(message) is not list or len(message) < 3 or type(message[1]) is not bytes:
            if server.index not in self._deaf:
                self._deaf.add(server.index)
                log.warning("%s does not let us subscribe, waiters poll: %s", server.endpoint.label, message)
            return
        kind, name, payload = message[0], message[1], message[2]
        found = self._by_client_channel.get(name)
        if found is not None:
            if kind == b"message":
                self._handed(found, server.index, payload)
            elif kind == b"subscribe":
                self._confirmed(found, server.index)
        elif kind == b"message" and (found := self._by_channel.get(name)) is not None:
            for ear in found.ears:
                self._tell(ear, server.index, payload)

    def _confirmed(self, found: Subscription, master: int) -> None:
        found.confirmed.add(master)
        for ear in found.ears:
            ear.stir()
        if master in found.lost:
            found.lost.discard(master)
            for ear in found.ears:
                # What was published while we were away is lost: look again at once.
                ear.wake(Wake.FREE)

    def _handed(self, found: Subscription, master: int, token: Any) -> None:
        if not token or type(token) is not bytes:
            return  # only asked whether somebody is here
        ear = found.ear(token)
        if ear is None:
            self._strays.append((found.name, token.decode("utf-8", "replace")))
            return
        self._hand(ear, master)

    def _hand(self, ear: Ear, master: int) -> None:
        handed = ear.handed
        handed.add(master)
        if len(handed) == self._quorum:
            self._hoping.discard(ear)
            ear.wake(Wake.HANDED)
        elif len(handed) < self._quorum and (len(handed) == 1 or ear.grace_at == math.inf):
            self._hope(ear, grace(ear.place.round_s, ear.place.splits))

    def _hope(self, ear: Ear, patience: float) -> None:
        # Masters on which the holder had no key, or that we do not hear, publish nothing.
        ear.grace_at = min(ear.grace_at, self._clock() + patience)
        self._hoping.add(ear)

    def _tell(self, ear: Ear, master: int, message: bytes) -> None:
        if message != ear.message:
            ear.message, ear.heard = message, set()
        if master in ear.heard:
            ear.heard.clear()  # published again: another release with the same text
        ear.heard.add(master)
        # On the q-th master and not before: after the first message only one master is free, and a
        # try is certain to fail and to disturb.
        if len(ear.heard) == self._quorum:
            ear.wake(Wake.FREE)
        elif len(ear.heard) == 1 and not self._wire.shared:
            self._hope(ear, GRACE_S)  # where undone votes are told as well, a minority says nothing

    # -- connections; with the mutex held ----------------------------------------------------------

    def _welcome(self, server: MasterConnection[L], connection: L) -> None:
        self._deaf.discard(server.index)
        for found in self._by_name.values():
            self._send(server, connection, pack(("SUBSCRIBE", *found.names)))
        if not self._by_name:
            self._connections.drop(server, Fault(FaultKind.DOWN, "not needed any more"))

    def _send_all(self, packed: bytes) -> None:
        for server in self._connections.servers:
            if server.connection is not None:
                self._send(server, server.connection, packed)

    def _send(self, server: MasterConnection[L], connection: L, packed: bytes) -> None:
        try:
            self._connections.send(connection, packed)
        except OSError as error:
            self._drop(server, str(error) or type(error).__name__)

    def _drop(self, server: MasterConnection[L], why: str) -> None:
        self._connections.drop(server, Fault(FaultKind.BROKEN, why))
        for found in self._by_name.values():
            if server.index in found.confirmed:
                found.confirmed.discard(server.index)
                found.lost.add(server.index)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connections; waiters are woken. Twice is once."""
        with self._mutex:
            if self._connections.closed:
                return
            self._connections.close()
            for found in self._by_name.values():
                for ear in found.ears:
                    ear.wake(Wake.FREE)
            self._by_name.clear()
            self._by_channel.clear()
            self._by_client_channel.clear()
            self._by_hint.clear()

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._connections.abandon()
