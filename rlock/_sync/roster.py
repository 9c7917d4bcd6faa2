"""The roster: which masters are connected, and the connecting of those that are not.

The fan-out has one for commands, the listener one for subscriptions. Dead masters are dialled again in
the background, by a short-lived thread each, and only while somebody uses the roster.
"""

from __future__ import annotations

import logging
import math
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from random import Random

from ..clock import Clock
from ..model import Fault, FaultKind
from ..rules.timing import probe_wait
from .links import DialError, Link, dial
from .masters import Endpoint
from .parking import ParkingLot

log = logging.getLogger("rlock")

#: Opening a connection takes several round trips, so it gets at least this long, in the background.
DIAL_TIMEOUT_S = 1.0

#: The first connections of a client get this long, however short the time-out of a request.
FIRST_CONTACT_S = 0.25

#: How long to leave a server alone that is in the list under another name already.
DUPLICATE_PAUSE_S = 2.0


class Bell:
    """A pipe whose far end is polled with the links, to interrupt a thread that waits for them."""

    __slots__ = ("__weakref__", "_close", "fileno", "rope")

    def __init__(self) -> None:
        self.fileno, self.rope = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self.rope, False)
        # A client that is dropped without close() must not leak descriptors.
        self._close = weakref.finalize(self, _close_all, self.fileno, self.rope)

    def ring(self) -> None:
        """Interrupt."""
        if self._close.alive:
            try:
                os.write(self.rope, b"!")
            except BlockingIOError:
                pass  # full of rings that nobody has answered yet

    def answer(self) -> None:
        """Take note of all rings so far."""
        try:
            os.read(self.fileno, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptors back. Twice is once."""
        self._close()


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Slot:
    """One master: its link, or why there is none."""

    __slots__ = (
        "dialing",
        "endpoint",
        "failures",
        "fault",
        "index",
        "kill",
        "link",
        "probe_at",
        "wanted_until",
    )

    def __init__(self, index: int, endpoint: Endpoint) -> None:
        self.index = index
        self.endpoint = endpoint
        self.link: Link | None = None
        self.fault = Fault(FaultKind.DOWN, "not connected yet")
        self.failures = 0
        self.probe_at = -math.inf
        self.dialing = False
        #: Until then it is dialled again and again, whether or not somebody uses the roster: it is owed
        #: something.
        self.wanted_until = -math.inf
        #: Connections that ended with requests unanswered, as (run_id, client id).
        self.kill: list[tuple[str, int]] = []


class Roster:
    """The links of one kind to all masters. Called with ``mutex``, but for `poll`, `connect`, `changed`."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[Slot, Link], None],
        *,
        timeout: float,
        subscriber: bool = False,
        guarded: bool = False,
    ) -> None:
        self.slots = [Slot(i, endpoint) for i, endpoint in enumerate(endpoints)]
        self.changed = ParkingLot(mutex)  # a link came, a dial ended
        self.up = 0
        self.closed = False
        self.fresh = True  # nothing was dialled yet
        self._mutex = mutex
        self._clock = clock
        self._random = random
        self._on_link = on_link
        self._request_timeout = timeout
        self._timeout = max(timeout, DIAL_TIMEOUT_S)
        self._subscriber = subscriber
        self._guarded = guarded
        self._by_fd: dict[int, Slot] = {}
        self._poll = select.poll()
        self._bell = Bell()
        self._poll.register(self._bell.fileno, select.POLLIN)

    # -- events ------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Wait for the links, at most ``timeout`` seconds. The one method without the mutex; one thread."""
        try:
            return self._poll.poll(math.ceil(max(0.0, timeout) * 1000))
        except RuntimeError:
            # "concurrent poll() invocation": the one who was to read before us still does.
            time.sleep(0.001)
            return []

    def ring(self) -> None:
        """Make a thread that polls look at the roster again."""
        self._bell.ring()

    def serve(self, fd: int, event: int) -> tuple[Slot, Link, bool] | None:
        """Move what has arrived into the link's reader: the slot, its link, whether it still lives."""
        if fd == self._bell.fileno:
            self._bell.answer()
            return None
        slot = self._by_fd.get(fd)
        if slot is None or slot.link is None:
            # Dropped by a thread that was interrupted half-way: unknown to us, and polled for ever.
            self._unregister(fd)
            return None
        link = slot.link
        if event & select.POLLOUT:
            link.flush()
            if not link.outbox:
                self._poll.modify(fd, select.POLLIN)
        alive = link.receive() if event & ~select.POLLOUT else True
        return slot, link, alive

    def send(self, link: Link, packed: bytes) -> None:
        """Write to a link; what the kernel does not take goes out when it does. Raises OSError."""
        kept = bool(link.outbox)
        link.send(packed)
        if link.outbox and not kept:
            self._poll.modify(link.fileno, select.POLLIN | select.POLLOUT)
            self.ring()

    def drop(self, slot: Slot, fault: Fault) -> Link | None:
        """End a link; the caller sees to the replies that it owed."""
        link = slot.link
        if link is None:
            return None
        slot.link = None
        self.up -= 1
        self._by_fd.pop(link.fileno, None)
        self._unregister(link.fileno)
        slot.fault = fault
        # A link that broke is dialled at once: servers close idle connections. One that hung is not; nor
        # one on which nothing was ever answered, or we would dial without a pause a proxy that knows no
        # SUBSCRIBE.
        if fault.kind is FaultKind.BROKEN:
            slot.failures = 0 if link.answered else slot.failures + 1
        else:
            slot.failures = 1
        slot.probe_at = self._clock() + probe_wait(self._random, slot.failures)
        if fault.kind is FaultKind.DUPLICATE:
            slot.probe_at += DUPLICATE_PAUSE_S  # only somebody with an editor can mend it
        log.info("%s: %s", slot.endpoint.label, fault.text)
        if link.owed and link.client_id and link.run_id:
            slot.kill.append((link.run_id, link.client_id))
        link.close()
        self.ring()  # a poll may still wait for the descriptor that is gone
        return link

    def _unregister(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass

    # -- connecting --------------------------------------------------------------------------------

    def connect(self, patience: float, enough: int, quorum: int, check: Callable[[], None]) -> None:
        """Dial what is due, in the background; wait for it only while fewer than ``enough`` are up.

        At most ``patience`` seconds, a little longer the first time of all. ``check`` may raise. Without
        the mutex.
        """
        if self.up == len(self.slots):
            return
        with self._mutex:
            check()
            self.dial_due()
            if self.up >= enough and not self.fresh:
                return
        began = self._clock()
        self.changed.wait_for(
            lambda: self.up >= enough or not self.dialing or self.closed,
            max(patience, FIRST_CONTACT_S) if self.fresh else patience,
        )
        if self.fresh and self.up >= quorum:
            # The first time of all: masters that need a little longer than the quorum get it, so that
            # the first lock stands on all of them; one that hangs does not hold us up.
            spent = self._clock() - began
            self.changed.wait_for(lambda: not self.dialing or self.closed, 2 * spent + 0.02)
        self.fresh = False

    @property
    def dialing(self) -> bool:
        """Whether an attempt is under way."""
        return any(slot.dialing for slot in self.slots)

    def next_probe(self) -> float:
        """When the next attempt is due."""
        return min(
            (slot.probe_at for slot in self.slots if slot.link is None and not slot.dialing), default=math.inf
        )

    def dial_due(self) -> None:
        """Start an attempt for each master that is down and whose time has come."""
        now = self._clock()
        for slot in self.slots:
            if slot.link is None and not slot.dialing and now >= slot.probe_at:
                slot.dialing = True
                try:
                    threading.Thread(
                        target=self._dial_on, args=(slot,), name="rlock-dial", daemon=True
                    ).start()
                except RuntimeError as error:  # no thread to be had: that master has no vote
                    slot.dialing = False
                    self._failed(slot, Fault(FaultKind.DOWN, str(error)))
                except BaseException:
                    slot.dialing = False  # else this master would never be dialled again
                    raise

    def _dial_on(self, slot: Slot) -> None:
        """Dial once; or, if the master is owed something, until that is over."""
        while True:
            self._dial(slot)
            with self._mutex:
                pause = max(0.0, slot.probe_at - self._clock())
                if slot.link is not None or self.closed or self._clock() + pause >= slot.wanted_until:
                    return
            time.sleep(min(pause, DIAL_TIMEOUT_S))
            with self._mutex:
                # Somebody else's attempt is as good.
                if slot.link is not None or slot.dialing or self.closed:
                    return
                slot.dialing = True

    def _dial(self, slot: Slot) -> None:
        link: Link | None = None
        fault = Fault(FaultKind.DOWN, "the connection attempt was interrupted")
        kill = list(slot.kill)
        try:
            link = dial(
                slot.endpoint,
                self._timeout,
                request_timeout=self._request_timeout,
                kill=kill,
                subscriber=self._subscriber,
                guarded=self._guarded,
            )
        except DialError as error:
            fault = error.fault
        except Exception as error:  # no descriptor, no memory: that master has no vote
            fault = Fault(FaultKind.DOWN, str(error) or type(error).__name__)
        finally:
            with self._mutex:
                slot.dialing = False
                if link is None:
                    self._failed(slot, fault)
                elif self.closed:
                    link.close()
                else:
                    slot.kill = [old for old in slot.kill if old not in kill]
                    self._take(slot, link)
                self.changed.notify_all()
                self.ring()

    def _failed(self, slot: Slot, fault: Fault) -> None:
        if fault != slot.fault and not self._subscriber:
            log.warning("%s gives no vote: %s", slot.endpoint.label, fault.text)
        slot.fault = fault
        slot.failures += 1
        slot.probe_at = self._clock() + probe_wait(self._random, slot.failures + 1)

    def _take(self, slot: Slot, link: Link) -> None:
        if slot.link is not None:
            link.close()  # a second attempt that an interrupt let through
            return
        if slot.failures:
            log.info("%s answers again", slot.endpoint.label)
        slot.link = link
        self.up += 1
        self._by_fd[link.fileno] = slot
        self._poll.register(link.fileno, select.POLLIN)
        self._on_link(slot, link)

    # -- the end -----------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Close all links; they can be dialled again."""
        for slot in self.slots:
            if slot.link is not None:
                self._unregister(slot.link.fileno)
                slot.link.close()
                slot.link = None
                slot.fault = Fault(FaultKind.DOWN, "not connected")
                slot.probe_at = -math.inf
        self._by_fd.clear()
        self.up = 0

    def close(self) -> None:
        """Close all links for good. The bell stays for a thread that polls; `close_bell` ends it."""
        self.closed = True
        self.ring()
        self.hang_up()
        self.changed.notify_all()

    def abandon(self) -> None:
        """In a forked child: drop our copies of the descriptors, without a word to the servers."""
        self.closed = True
        for slot in self.slots:
            if slot.link is not None:
                slot.link.close()
                slot.link = None
        self.close_bell()

    def close_bell(self) -> None:
        """Give the two descriptors of the bell back. Twice is once."""
        self._bell.close()
