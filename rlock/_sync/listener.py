"""Listener: hears for threads of this process that wait for locks.

One subscriber connection for each master carries all channels: for each lock that of the lock, and that
of this client, on which it is told what was handed to its waiters. Of the threads that wait, one reads for
all (the reader), so that a message reaches a lonely waiter without a change of threads. A daemon thread
keeps house a few times a second while something is subscribed: it reads when nobody waits, and ends a
subscription a little after its last waiter.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import hiredis

from ..clock import Clock
from ..model import Fault, FaultKind
from ..procedures.steps import Wake
from ..rules.places import Bequest, Place
from ..rules.quorum import quorum
from ..rules.timing import CHANNEL_LINGER_S, GRACE_S, grace
from .ears import Ear, Subscription
from .links import Link, pack
from .masters import Endpoint
from .roster import Roster, Slot

log = logging.getLogger("rlock")

#: How often the thread looks.
LOOK_S = 0.5
#: How long a follower trusts that somebody reads for it.
TRUST_S = 1.0


class Listener:
    """The subscriber connections of one client in one process. Thread-safe.

    ``stray`` is called, in whichever thread reads, with the lock and the token of a place that was handed it
    and for which nobody here waits any more.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        request_timeout: float,
        clock: Clock,
        random: Random,
        station: str,
        stray: Callable[[str, str], None],
    ) -> None:
        self._clock = clock
        self._station = station
        self._stray = stray
        self._strays: list[tuple[str, str]] = []
        self._quorum = quorum(len(endpoints))
        self._mutex = threading.Lock()
        self._roster = Roster(
            endpoints, self._mutex, clock, random, self._welcome, timeout=request_timeout, subscriber=True
        )
        self._subscriptions: dict[str, Subscription] = {}
        self._by_channel: dict[bytes, Subscription] = {}
        #: Masters that let us subscribe to nothing: nobody waits for their confirmation.
        self._deaf: set[int] = set()
        #: The waiter whose thread reads for all. It may have been interrupted on the way out, so others
        #: go by whether it is parked.
        self._reader: Ear | None = None
        #: Waiters that heard from fewer masters than a quorum.
        self._hoping: set[Ear] = set()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    # -- for the waiters ---------------------------------------------------------------------------

    def standing(self, name: str) -> bool:
        """Whether a quorum of masters has confirmed the channels of this lock already."""
        found = self._subscriptions.get(name)
        return found is not None and len(found.confirmed) >= self._quorum

    def listen(self, ear: Ear, timeout: float) -> int:
        """Subscribe, and wait until a quorum of masters has confirmed it, or all that can, or the time.

        On how many masters it stands. `leave` is owed in any case, also after an exception.
        """
        with self._mutex:
            found = self._subscriptions.get(ear.name)
            if found is None:
                found = Subscription(ear.name, self._station)
                self._subscriptions[ear.name] = found
                for name in found.names:
                    self._by_channel[name.encode()] = found
                self._send_all(pack(("SUBSCRIBE", *found.names)))
            found.idle_at = math.inf
            if ear not in found.ears:
                found.ears.add(ear)
                self._run()
        if timeout > 0:
            self._read_until(ear, lambda: self._settled(found), timeout)
        return len(found.confirmed)

    def park(self, ear: Ear, timeout: float) -> Wake:
        """Sleep until there is a reason to try; which."""
        self._read_until(ear, lambda: ear.wake_for is not Wake.TIME, timeout)
        with self._mutex:
            return ear.take_wake()

    def leave(self, ear: Ear) -> None:
        """Listen no more."""
        with self._mutex:
            found = self._subscriptions.get(ear.name)
            if found is None or ear not in found.ears:
                return
            found.ears.discard(ear)
            if not found.ears:
                found.idle_at = self._clock() + CHANNEL_LINGER_S
            if ear.handed:
                # Most likely what the last round has taken already; if not, it has no hurry.
                self._strays.append((ear.name, ear.place.token))

    # -- for a holder of this process ----------------------------------------------------------------

    def heir(self, name: str) -> Place | None:
        """The one of our own waiters that came first, if it is asleep."""
        if name not in self._subscriptions:
            return None
        with self._mutex:
            asleep = [
                ear.place for ear in self._ears(name) if ear.parked and ear.place.drawn and not ear.handed
            ]
        return min(asleep, key=lambda place: (place.ticket, place.waiter), default=None)

    def bequeath(self, place: Place, bequest: Bequest) -> bool:
        """Tell a waiter that a holder of this process released in its favour. False: it has gone."""
        with self._mutex:
            for ear in self._ears(place.name):
                if ear.place is place:
                    place.bequest = bequest
                    ear.wake(Wake.GRANTED)
                    if self._reader is ear:
                        self._roster.ring()  # it waits for the masters' sockets
                    return True
        return False

    def waiting(self, name: str) -> list[Place]:
        """Our own waiters that have a place."""
        with self._mutex:
            return [ear.place for ear in self._ears(name) if ear.place.drawn]

    def _ears(self, name: str) -> Iterator[Ear]:
        found = self._subscriptions.get(name)
        return iter(list(found.ears) if found is not None else ())

    def _settled(self, found: Subscription) -> bool:
        roster = self._roster
        if roster.closed or len(found.confirmed) >= self._quorum:
            return True
        return not roster.dialing and all(
            slot.link is None or slot.index in found.confirmed or slot.index in self._deaf
            for slot in roster.slots
        )

    # -- reading -----------------------------------------------------------------------------------

    def _read_until(self, ear: Ear, done: Callable[[], bool], timeout: float) -> None:
        """Wait until ``done``, reading for all if nobody else does. Interrupts may come at any line."""
        until = self._clock() + timeout
        ear.parked = True
        try:
            while True:
                with self._mutex:
                    now = self._clock()
                    if done() or now >= until or self._roster.closed:
                        return
                    reader = self._reader
                    reading = reader is None or reader is ear or not reader.parked
                    if reading:
                        self._reader = ear
                        self._roster.dial_due()
                        until_due = min(until, self._due())
                if reading:
                    self._take_in(self._roster.poll(until_due - now))
                else:
                    ear.parker.acquire(timeout=min(until - now, TRUST_S))
        finally:
            ear.parked = False
            with self._mutex:
                if self._reader is ear or self._reader is None:
                    # Also if it was only appointed: the next one has to know.
                    self._reader = None
                    self._appoint()
                    if self._roster.closed:
                        self._roster.close_bell()

    def _due(self) -> float:
        """When to do something without having read anything."""
        hopes = min((ear.grace_at for ear in self._hoping), default=math.inf)
        return min(hopes, self._roster.next_probe())

    def _appoint(self) -> None:
        """Let another waiter read on."""
        for found in self._subscriptions.values():
            for ear in found.ears:
                if ear.parked:
                    ear.stir()
                    return

    def _take_in(self, events: Sequence[tuple[int, int]]) -> None:
        with self._mutex:
            for fd, event in events:
                self._serve(fd, event)
            if self._hoping:
                now = self._clock()
                for ear in [ear for ear in self._hoping if ear.grace_at <= now]:
                    ear.wake(Wake.HANDED if ear.handed else Wake.FREE)
                self._hoping = {ear for ear in self._hoping if ear.grace_at < math.inf}
            strays, self._strays = self._strays, []
        for name, token in strays:
            self._stray(name, token)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._roster.closed:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._keep_house, name="rlock-listener", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.warning("nobody ends the subscriptions: %s", error)
                return
            self._thread = thread
        self._roster.dial_due()

    def _keep_house(self) -> None:
        try:
            while True:
                with self._mutex:
                    if not self._tidy():
                        return
                    reader = self._reader
                    nobody = reader is None or not reader.parked
                if nobody:
                    self._take_in(self._roster.poll(0.0))
                self._end.wait(LOOK_S)
        except BaseException:
            log.exception("the listener thread failed; it is started again with the next waiter")
            raise
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _tidy(self) -> bool:
        """End the subscriptions that nobody needs; whether any is left."""
        now = self._clock()
        if self._roster.closed:
            return False
        for found in list(self._subscriptions.values()):
            if found.idle_at <= now:
                del self._subscriptions[found.name]
                for name in found.names:
                    del self._by_channel[name.encode()]
                self._send_all(pack(("UNSUBSCRIBE", *found.names)))
            elif not found.ears and found.idle_at == math.inf:
                found.idle_at = now + CHANNEL_LINGER_S
        if not self._subscriptions:
            # Under the mutex: a waiter that comes now finds no thread and starts one.
            self._thread = None
            self._roster.hang_up()
            return False
        self._roster.dial_due()
        return True

    def _serve(self, fd: int, event: int) -> None:
        try:
            served = self._roster.serve(fd, event)
            if served is None:
                return
            slot, link, alive = served
            while (message := link.reader.gets()) is not False:
                self._hear(slot, message)
            if not alive:
                self._drop(slot, "the server closed the connection")
        except (OSError, hiredis.HiredisError) as error:
            for slot in self._roster.slots:
                if slot.link is not None and slot.link.fileno == fd:
                    self._drop(slot, str(error) or type(error).__name__)

    def _hear(self, slot: Slot, message: Any) -> None:
        if not isinstance(message, list) or len(message) < 3:
            if slot.index not in self._deaf:
                self._deaf.add(slot.index)
                log.warning("%s does not let us subscribe, waiters poll: %s", slot.endpoint.label, message)
            return
        kind, name, payload = message[0], message[1], message[2]
        found = self._by_channel.get(name)
        if found is None:
            return
        ours = name == found.names[1].encode()
        if kind == b"subscribe" and ours:
            found.confirmed.add(slot.index)
            for ear in found.ears:
                ear.stir()
            if slot.index in found.lost:
                found.lost.discard(slot.index)
                for ear in found.ears:
                    # What was published while we were away is lost: look again at once.
                    ear.wake(Wake.FREE)
        elif kind == b"message" and ours:
            self._handed(found, slot.index, payload.decode("utf-8", "replace"))
        elif kind == b"message":
            for ear in found.ears:
                self._tell(ear, slot.index, payload)

    def _handed(self, found: Subscription, master: int, token: str) -> None:
        ear = found.ear(token)
        if ear is None:
            self._strays.append((found.name, token))
            return
        ear.handed.add(master)
        if len(ear.handed) == self._quorum:
            ear.wake(Wake.HANDED)
        elif len(ear.handed) < self._quorum:
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
        elif len(ear.heard) == 1:
            self._hope(ear, GRACE_S)

    # -- connections; with the mutex held ----------------------------------------------------------

    def _welcome(self, slot: Slot, link: Link) -> None:
        self._deaf.discard(slot.index)
        for found in self._subscriptions.values():
            self._send(slot, link, pack(("SUBSCRIBE", *found.names)))
        if not self._subscriptions:
            self._roster.drop(slot, Fault(FaultKind.DOWN, "not needed any more"))

    def _send_all(self, packed: bytes) -> None:
        for slot in self._roster.slots:
            if slot.link is not None:
                self._send(slot, slot.link, packed)

    def _send(self, slot: Slot, link: Link, packed: bytes) -> None:
        try:
            self._roster.send(link, packed)
        except OSError as error:
            self._drop(slot, str(error) or type(error).__name__)

    def _drop(self, slot: Slot, why: str) -> None:
        self._roster.drop(slot, Fault(FaultKind.BROKEN, why))
        for found in self._subscriptions.values():
            if slot.index in found.confirmed:
                found.confirmed.discard(slot.index)
                found.lost.add(slot.index)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connections and the thread; waiters are woken. Twice is once."""
        with self._mutex:
            if self._roster.closed:
                return
            self._roster.close()
            for found in self._subscriptions.values():
                for ear in found.ears:
                    ear.wake(Wake.FREE)
            self._subscriptions.clear()
            self._by_channel.clear()
            thread = self._thread
            if self._reader is None:
                self._roster.close_bell()
        self._end.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._roster.abandon()
