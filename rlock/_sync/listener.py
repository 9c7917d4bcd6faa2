"""Listener: hears the releases of locks that threads of this process wait for.

One subscriber connection for each master carries all channels. One daemon thread reads them; it exists
while something is subscribed, and a channel stays subscribed a little longer than its last waiter.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from collections.abc import Sequence
from random import Random
from typing import Any

import hiredis

from ..clock import Clock
from ..model import Fault, FaultKind
from ..rules.quorum import quorum
from ..rules.timing import CHANNEL_LINGER_S, GRACE_S
from .masters import Endpoint, Link, pack
from .roster import Roster, Slot

log = logging.getLogger("rlock")

#: How long the thread sleeps at the most before it looks for what nobody has told it.
LOOK_ROUND_S = 10.0


class Ear:
    """One waiter's view of a channel."""

    __slots__ = ("__weakref__", "channel", "grace_at", "heard", "message", "parker", "ready")

    def __init__(self, channel: str) -> None:
        self.channel = channel
        #: The masters that published the message below.
        self.heard: set[int] = set()
        self.message: bytes | None = None
        #: When a message that too few masters published is believed all the same.
        self.grace_at = math.inf
        #: There is a reason to look, and the waiter has not been told yet.
        self.ready = False
        self.parker = threading.Lock()
        self.parker.acquire()

    def wake(self) -> None:
        """Tell the waiter that trying may now succeed."""
        self.grace_at = math.inf
        if not self.ready:
            self.ready = True
            self.parker.release()


class Channel:
    """A subscription on all masters, and those who listen to it."""

    __slots__ = ("confirmed", "ears", "idle_at", "lost", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.confirmed: set[int] = set()
        #: Masters on which it stood until their connection ended.
        self.lost: set[int] = set()
        #: Weak: an interrupted waiter that never said goodbye must not keep the subscription.
        self.ears: weakref.WeakSet[Ear] = weakref.WeakSet()
        self.idle_at = math.inf


class Listener:
    """The subscriber connections of one client in one process. Thread-safe."""

    def __init__(
        self, endpoints: Sequence[Endpoint], request_timeout: float, clock: Clock, random: Random
    ) -> None:
        self._clock = clock
        self._quorum = quorum(len(endpoints))
        self._mutex = threading.Lock()
        self._roster = Roster(
            endpoints, self._mutex, clock, random, self._welcome, timeout=request_timeout, subscriber=True
        )
        self._confirmed = self._roster.changed  # also told when a dial has ended
        self._channels: dict[bytes, Channel] = {}
        #: Masters that let us subscribe to nothing: nobody waits for their confirmation.
        self._deaf: set[int] = set()
        self._thread: threading.Thread | None = None

    # -- for the waiters ---------------------------------------------------------------------------

    def listen(self, ear: Ear, timeout: float) -> int:
        """Subscribe, and wait until a quorum of masters has confirmed it, or all that can, or the time.

        On how many masters it stands. `leave` is owed in any case, also after an exception.
        """
        with self._mutex:
            channel = self._channels.get(ear.channel.encode())
            if channel is None:
                channel = self._channels[ear.channel.encode()] = Channel(ear.channel)
                self._send_all(pack(("SUBSCRIBE", ear.channel)))
            channel.idle_at = math.inf
            channel.ears.add(ear)
            self._run()
            self._roster.ring()
        self._confirmed.wait_for(lambda: self._settled(channel), timeout)
        return len(channel.confirmed)

    def heard_by(self, ear: Ear) -> int:
        """On how many masters the subscription stands now."""
        channel = self._channels.get(ear.channel.encode())
        return 0 if channel is None else len(channel.confirmed)

    def park(self, ear: Ear, timeout: float) -> bool:
        """Sleep until there is a reason to try. False: the time is over without one."""
        woken = ear.parker.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)) if timeout > 0 else False
        if not woken:
            woken = ear.parker.acquire(blocking=False)
        if woken:
            with self._mutex:
                ear.ready = False
        return woken

    def leave(self, ear: Ear) -> None:
        """Listen no more."""
        with self._mutex:
            channel = self._channels.get(ear.channel.encode())
            if channel is None or ear not in channel.ears:
                return
            channel.ears.discard(ear)
            if not channel.ears:
                channel.idle_at = self._clock() + CHANNEL_LINGER_S
                self._roster.ring()  # the thread sleeps until something is due, and this is now

    def _settled(self, channel: Channel) -> bool:
        roster = self._roster
        if roster.closed or len(channel.confirmed) >= self._quorum:
            return True
        return not roster.dialing and all(
            slot.link is None or slot.index in channel.confirmed or slot.index in self._deaf
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
        for key, channel in list(self._channels.items()):
            if channel.idle_at <= now:
                del self._channels[key]
                self._send_all(pack(("UNSUBSCRIBE", channel.name)))
                continue
            if not channel.ears and channel.idle_at == math.inf:
                channel.idle_at = now + CHANNEL_LINGER_S
            wake_at = min(wake_at, channel.idle_at)
            for ear in channel.ears:
                if ear.grace_at <= now:
                    ear.wake()
                wake_at = min(wake_at, ear.grace_at)
        if not self._channels:
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
        channel = self._channels.get(name)
        if channel is None:
            return
        if kind == b"subscribe":
            channel.confirmed.add(slot.index)
            self._confirmed.notify_all()
            if slot.index in channel.lost:
                channel.lost.discard(slot.index)
                for ear in channel.ears:
                    # What was published while we were away is lost: look again at once.
                    ear.wake()
        elif kind == b"message":
            for ear in channel.ears:
                self._tell(ear, slot.index, payload)

    def _tell(self, ear: Ear, master: int, message: bytes) -> None:
        if message != ear.message:
            ear.message, ear.heard = message, set()
        if master in ear.heard:
            ear.heard.clear()  # published again: another release with the same text
        ear.heard.add(master)
        # On the q-th master and not before: after the first message only one master is free, and a
        # try is certain to fail and to disturb.
        if len(ear.heard) == self._quorum:
            ear.wake()
        elif len(ear.heard) == 1:
            # Masters on which the holder had no key, or that we do not hear, publish nothing.
            ear.grace_at = min(ear.grace_at, self._clock() + GRACE_S)

    # -- connections; with the mutex held ----------------------------------------------------------

    def _welcome(self, slot: Slot, link: Link) -> None:
        self._deaf.discard(slot.index)
        for channel in self._channels.values():
            self._send(slot, link, pack(("SUBSCRIBE", channel.name)))
        if not self._channels:
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
        for channel in self._channels.values():
            if slot.index in channel.confirmed:
                channel.confirmed.discard(slot.index)
                channel.lost.add(slot.index)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connections and the thread; waiters are woken. Twice is once."""
        with self._mutex:
            if self._roster.closed:
                return
            self._roster.close()
            for channel in self._channels.values():
                for ear in channel.ears:
                    ear.wake()
            self._channels.clear()
            self._confirmed.notify_all()
            thread = self._thread
            if thread is None:
                self._roster.close_bell()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._roster.abandon()
