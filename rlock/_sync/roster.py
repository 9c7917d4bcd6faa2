"""The roster of the blocking driver: one poll for all links, and a short-lived thread for each dial."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .._driver import roster
from .._driver.roster import Slot
from .._driver.waits import NOTHING, Waits
from ..clock import Clock
from ..model import Fault
from .links import SocketLink
from .masters import Endpoint
from .parking import ParkingLot
from .polling import POLLIN, POLLOUT, poller


class Bell:
    """A pipe whose far end is polled with the links, to interrupt a thread that waits for them."""

    __slots__ = ("__weakref__", "_close", "fileno", "rope")

    def __init__(self) -> None:
        self.fileno, self.rope = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.rope, False)
        # A client that is dropped without close() must not leak descriptors.
        self._close = weakref.finalize(self, _close_all, self.fileno, self.rope)
        # Finalizers run before our own end of the process, which still has to poll the masters.
        self._close.atexit = False

    def ring(self) -> None:
        """Interrupt."""
        if self._close.alive:
            try:
                # Not os.write: eventlet replaces it by one that waits until the pipe takes it.
                os.writev(self.rope, [b"!"])
            except BlockingIOError:
                pass  # full of rings that nobody has answered yet

    def answer(self) -> None:
        """Take note of all rings so far."""
        if not self._close.alive:
            return  # a greenlet that a fork copied: the number is somebody else's descriptor by now
        try:
            # Not os.read: eventlet replaces it by one that waits until somebody rings.
            os.readv(self.fileno, [bytearray(4096)])
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptors back. Twice is once."""
        self._close()


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Roster(roster.Roster[SocketLink]):
    """Called with ``mutex``, but for `poll`, `connecting` and `changed`."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[Slot[SocketLink], SocketLink], None],
        **options: Any,
    ) -> None:
        super().__init__(
            endpoints,
            mutex,
            clock,
            random,
            on_link,
            **options,
        )
        self._changed = ParkingLot(mutex)
        #: The master whose link has this descriptor.
        self.by_fd: dict[int, Slot[SocketLink]] = {}
        self._poll = poller()
        self._bell = Bell()
        self._poll.register(self._bell.fileno, POLLIN)

    # -- events ------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Wait for the links, at most ``timeout`` seconds. Without the mutex; one thread."""
        try:
            return self._poll.poll(math.ceil(timeout * 1000) if timeout > 0.0 else 0)
        except RuntimeError:
            # "concurrent poll() invocation": the one who was to read before us still does.
            time.sleep(0.001)
            return []

    def ring(self) -> None:
        """Make a thread that polls look at the roster again."""
        self._bell.ring()

    def serve(self, fd: int, event: int) -> tuple[Slot[SocketLink], SocketLink] | None:
        """Write what was held back; the slot and the link that may have something to read."""
        slot = self.by_fd.get(fd)
        if slot is None or (link := slot.link) is None:
            if fd == self._bell.fileno:
                self._bell.answer()
            else:
                # Dropped by a thread that was interrupted half-way: unknown to us, and polled for ever.
                self._forget(fd)
            return None
        if event & POLLOUT:
            link.flush()
            if not link.outbox:
                self._poll.modify(fd, POLLIN)
        return slot, link

    def hold_back(self, link: SocketLink) -> None:
        """Write what a link keeps when the kernel takes it."""
        self._poll.modify(link.fileno, POLLIN | POLLOUT)
        self.ring()

    def drop(self, slot: Slot[SocketLink], fault: Fault) -> SocketLink | None:
        """End a link; the caller sees to the replies that it owed."""
        link = super().drop(slot, fault)
        if link is not None:
            self.ring()  # a poll may still wait for the descriptor that is gone
        return link

    def _register(self, slot: Slot[SocketLink], link: SocketLink) -> None:
        self.by_fd[link.fileno] = slot
        self._poll.register(link.fileno, POLLIN)

    def _unregister(self, link: SocketLink) -> None:
        self.by_fd.pop(link.fileno, None)
        self._forget(link.fileno)

    def _forget(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass

    # -- connecting --------------------------------------------------------------------------------

    def _until(self, done: Callable[[], bool], timeout: float) -> Waits[None]:
        self._changed.wait_for(done, timeout)
        yield from NOTHING

    def _tell(self) -> None:
        self._changed.notify_all()
        self.ring()

    def _start(self, slot: Slot[SocketLink]) -> None:
        threading.Thread(target=self._dial_on, args=(slot,), name="rlock-dial", daemon=True).start()

    def _dial_on(self, slot: Slot[SocketLink]) -> None:
        """Dial once; or, if the master is owed something, until that is over."""
        while (pause := self._dial(slot)) is not None:
            time.sleep(pause)
            with self._mutex:
                if not self._redial(slot):
                    return

    def _dial(self, slot: Slot[SocketLink]) -> float | None:
        outcome: SocketLink | Exception = RuntimeError("the connection attempt was interrupted")
        call = self._call(slot)
        pause = None
        try:
            outcome = slot.endpoint.dial(call)
        except Exception as error:  # a fault, no descriptor, no memory: that master has no vote
            outcome = error
        finally:
            with self._mutex:
                pause = self._dialled(slot, call, outcome)
        self._tell_news()
        return pause

    # -- the end -----------------------------------------------------------------------------------

    def abandon(self) -> None:
        """In a forked child: drop our copies of the descriptors, without a word to the servers."""
        super().abandon()
        self.close_bell()

    def close_bell(self) -> None:
        """Give the two descriptors of the bell back, which `close` leaves to a thread that polls."""
        self._bell.close()
