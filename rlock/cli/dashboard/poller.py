"""Poller: one thread that looks at the fleet while somebody watches, however many they are."""

from __future__ import annotations

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
IDLE_S = 5.0  # a page asks every second: after this long nobody watches
STAY_S = 15.0  # then the connections go, too
# Longer than the time between two scrapes, or each would be a first look, which has no rate of hand-offs.
SCRAPE_S = 150.0
END_S = 0.5
PATIENCE_S = 5.0  # how long a question waits for the first look


class Looks(Protocol):
    """What looks: a `Scan`."""

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
    """Looks once a second from a question on, until nobody has asked for a while.

    ``scan`` makes what looks; it is closed when nobody has asked for long, so that no connection of ours
    stays on the masters.
    """

    def __init__(
        self,
        scan: Callable[[], Looks],
        *,
        every_s: float = EVERY_S,
        idle_s: float = IDLE_S,
        stay_s: float = STAY_S,
    ) -> None:
        self._make = scan
        self._every_s, self._idle_s, self._stay_s = every_s, idle_s, stay_s
        self._changed = threading.Condition()
        self._sight = Sight()
        self._rounds = 0
        self._watching = False
        self._closed = False
        self._asked_at = self._stay_until = float("-inf")
        self._thread: threading.Thread | None = None

    @property
    def rounds(self) -> int:
        """How many looks there were."""
        return self._rounds

    def sight(self, patience_s: float = PATIENCE_S, *, stay_s: float | None = None) -> Sight:
        """What was seen last. The first question after a time of rest waits for a fresh look.

        ``stay_s``: how long to stay connected for the next question, if not as long as for a page.
        """
        with self._changed:
            self._asked_at = time.monotonic()
            stay = self._stay_s if stay_s is None else stay_s
            self._stay_until = max(self._stay_until, self._asked_at + stay)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="rlock-poller", daemon=True)
                self._thread.start()
            if not self._watching:
                before = self._rounds
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed or self._rounds > before, patience_s)
            return self._sight

    def close(self) -> None:
        """No look begins any more; one that is under way gets a moment to end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        scan: Looks | None = None
        while self._wanted(scan is not None):
            if not self._watching:
                # Nobody has asked for long; the next question makes a new one.
                _put_away(scan)
                scan = None
                continue
            began = time.monotonic()
            try:
                if scan is None:
                    scan = self._make()
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
        _put_away(scan)

    def _wanted(self, open_: bool) -> bool:
        """Sleep until there is something to do: a look, or with ``open_`` the end of it. False: closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                self._watching = now - self._asked_at < self._idle_s
                if self._watching or (open_ and now >= self._stay_until):
                    break
                self._changed.wait(self._stay_until - now if open_ else None)
            return not self._closed


def _put_away(scan: Looks | None) -> None:
    if scan is not None:
        try:
            scan.close()
        except Exception:
            log.exception("the scan did not close")
