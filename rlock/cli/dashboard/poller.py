"""Poller: one thread that looks at the fleet while somebody watches, however many pages are open."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...errors import RLockError
from ..scan.snapshot import Snapshot

log = logging.getLogger("rlock")

EVERY_S = 1.0  # from the beginning of one look to that of the next
SHORTEST_PAUSE_S = 0.25  # masters that answer slowly are not asked without a break
IDLE_S = 15.0  # a page asks every second: after this time nobody watches, and the connections are closed
END_S = 0.5
PATIENCE_S = 5.0  # how long a question waits for the first look


class Looks(Protocol):
    """The part of `Scan` that is used here."""

    def look(self) -> Snapshot:
        """One look at the fleet."""

    def close(self) -> None:
        """The end of its connections."""


@dataclass(frozen=True)
class Sight:
    """The last look, and why there is none after it."""

    snapshot: Snapshot | None = None
    error: str | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the snapshot."""
        return None if self.snapshot is None else max(0.0, time.time() - self.snapshot.at)


class Poller:
    """Looks once a second from a question on, until nobody has asked for a while; then closes the scan."""

    def __init__(
        self, scan: Callable[[], Looks], *, every_s: float = EVERY_S, idle_s: float = IDLE_S
    ) -> None:
        self._make = scan
        self._every_s, self._idle_s = every_s, idle_s
        self._changed = threading.Condition()
        self._sight = Sight()
        self._rounds = 0
        self._closed = False
        self._watched_until = float("-inf")
        self._thread: threading.Thread | None = None

    def sight(self, patience_s: float = PATIENCE_S) -> Sight:
        """The last look. The first question after a time without any waits for a fresh look."""
        with self._changed:
            asked_at = time.monotonic()
            rested = asked_at >= self._watched_until
            self._watched_until = asked_at + self._idle_s
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="rlock-poller", daemon=True)
                self._thread.start()
            if rested:
                before = self._rounds
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed or self._rounds > before, patience_s)
            return self._sight

    def close(self) -> None:
        """No look begins any more; a look that is under way gets a moment to end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(END_S)

    def _run(self) -> None:
        """Look while somebody watches; then end, until the next question."""
        with contextlib.ExitStack() as stack:
            scan: Looks | None = None
            while self._watched():
                began = time.monotonic()
                try:
                    if scan is None:
                        scan = self._make()
                        stack.callback(scan.close)
                    sight = Sight(scan.look())
                except Exception as error:
                    # The thread must live on, or the page would be stale for ever after one bad look.
                    if not isinstance(error, RLockError):
                        log.exception("a look at the masters failed")
                    sight = Sight(self._sight.snapshot, str(error) or type(error).__name__)
                pause = max(SHORTEST_PAUSE_S, self._every_s - (time.monotonic() - began))
                with self._changed:
                    self._sight = sight
                    self._rounds += 1
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._closed, pause)

    def _watched(self) -> bool:
        with self._changed:
            watched = not self._closed and time.monotonic() < self._watched_until
            if not watched:
                self._thread = None  # the next question starts another one
            return watched
