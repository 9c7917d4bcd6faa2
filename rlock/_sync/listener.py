"""Listener: hears for threads of this process that wait for locks.

One subscriber connection for each master carries all channels: for each lock that of the lock, and that
of this client, on which it is told what was handed to its waiters. One daemon thread reads them; it
exists while something is subscribed, and a channel stays subscribed a little longer than its last waiter.
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
from ..rules.places import Place
from ..rules.quorum import quorum
from ..rules.timing import CHANNEL_LINGER_S, GRACE_S, grace
from .ears import Ear, Subscription
from .masters import Endpoint, Link, pack
from .roster import Roster, Slot

log = logging.getLogger("rlock")

#: How long the thread sleeps at the most before it looks for what nobody has told it.
LOOK_ROUND_S = 10.0


class Listener:
    """The subscriber connections of one client in one process. Thread-safe.

    ``stray`` is called, in the listener's thread, with the lock and the owner token of a hand-off that
    nobody here waits for.
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
        self._confirmed = self._roster.changed  # also told when a dial has ended
        self._subscriptions: dict[str, Subscription] = {}
        self._by_channel: dict[bytes, Subscription] = {}
        #: Masters that let us subscribe to nothing: nobody waits for their confirmation.
        self._deaf: set[int] = set()
        self._thread: threading.Thread | None = None

    # -- for the waiters ---------------------------------------------------------------------------

    def standing(self, name: str) -> bool:
        """Whether a quorum of masters has confirmed the channels of this lock already."""
        found = self._subscriptions.get(name)
        return found is not None and len(found.confirmed) >= self._quorum

    def listen(self, ear: Ear, place: Place, timeout: float) -> int:
        """Subscribe, and wait until a quorum of masters has confirmed it, or all that can, or the time.

        On how many masters it stands. `leave` is owed in any case, also after an exception.
        """
        with self._mutex:
            ear.stand_at(place)
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
                self._roster.ring()
        if timeout > 0:
            self._confirmed.wait_for(lambda: self._settled(found), timeout)
        return len(found.confirmed)

    def park(self, ear: Ear, timeout: float) -> Wake:
        """Sleep until there is a reason to try; which."""
        ear.sleep(timeout)
        with self._mutex:
            return ear.take_wake()

    def leave(self, ear: Ear) -> bool:
        """Listen no more; whether it was handed the lock on some master."""
        with self._mutex:
            found = self._subscriptions.get(ear.name)
            if found is None or ear not in found.ears:
                return False
            found.ears.discard(ear)
            if not found.ears:
                found.idle_at = self._clock() + CHANNEL_LINGER_S
                self._roster.ring()  # the thread sleeps until something is due, and this is now
            return bool(ear.handed)

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

    def bequeath(self, place: Place, sent_at: float, hops: int, *, whole: bool) -> bool:
        """Tell a waiter that a holder of this process released in its favour. False: it has gone.

        ``whole``: on a quorum of masters, by a round that was sent at ``sent_at``.
        """
        with self._mutex:
            for ear in self._ears(place.name):
                if ear.place is place:
                    place.sent_at, place.hops = sent_at, hops
                    ear.wake(Wake.GRANTED if whole else Wake.HANDED)
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

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._roster.closed:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._listen, name="rlock-listener", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.warning("cannot listen for releases, waiters poll: %s", error)
                return
            self._thread = thread
        self._roster.dial_due()

    def _listen(self) -> None:
        try:
            while True:
                with self._mutex:
                    pause = self._house_keeping()
                    if pause is None:
                        return
                events = self._roster.poll(pause)
                with self._mutex:
                    for fd, event in events:
                        self._serve(fd, event)
                    strays, self._strays = self._strays, []
                for name, owner in strays:
                    self._stray(name, owner)
        except BaseException:
            log.exception("the listener thread failed; waiters poll until it is started again")
            raise
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():
                    self._thread = None
                if self._roster.closed:
                    self._roster.close_bell()

    def _house_keeping(self) -> float | None:
        """What is due by the clock; how long nothing will be. None: the thread is not needed any more."""
        now = self._clock()
        if self._roster.closed:
            return None
        wake_at = math.inf
        for found in list(self._subscriptions.values()):
            if found.idle_at <= now:
                del self._subscriptions[found.name]
                for name in found.names:
                    del self._by_channel[name.encode()]
                self._send_all(pack(("UNSUBSCRIBE", *found.names)))
                continue
            if not found.ears and found.idle_at == math.inf:
                found.idle_at = now + CHANNEL_LINGER_S
            wake_at = min(wake_at, found.idle_at)
            for ear in found.ears:
                if ear.grace_at <= now:
                    ear.wake(Wake.HANDED if ear.handed else Wake.FREE)
                wake_at = min(wake_at, ear.grace_at)
        if not self._subscriptions:
            # Under the mutex: a waiter that comes now finds no thread and starts one.
            self._thread = None
            self._roster.hang_up()
            return None
        self._roster.dial_due()
        return min(wake_at, self._roster.next_probe(), now + LOOK_ROUND_S) - now

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
            self._confirmed.notify_all()
            return
        kind, name, payload = message[0], message[1], message[2]
        found = self._by_channel.get(name)
        if found is None:
            return
        ours = name == found.names[1].encode()
        if kind == b"subscribe" and ours:
            found.confirmed.add(slot.index)
            self._confirmed.notify_all()
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

    def _handed(self, found: Subscription, master: int, owner: str) -> None:
        ear = found.ear(owner)
        if ear is None:
            self._strays.append((found.name, owner))
            return
        ear.handed.add(master)
        if len(ear.handed) == self._quorum:
            ear.wake(Wake.HANDED)
        elif len(ear.handed) < self._quorum:
            ear.grace_at = min(ear.grace_at, self._clock() + grace(ear.place.splits))

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
            # Masters on which the holder had no key, or that we do not hear, publish nothing.
            ear.grace_at = min(ear.grace_at, self._clock() + GRACE_S)

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
            self._confirmed.notify_all()
            thread = self._thread
            if thread is None:
                self._roster.close_bell()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._roster.abandon()
