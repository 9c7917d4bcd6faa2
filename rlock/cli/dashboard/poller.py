"""Poller: one look at the fleet at a time, on demand, however many pages are open."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import RLockError
from ..scan.snapshot import Snapshot

log = logging.getLogger("rlock")

EVERY_S = 0.9  # a page asks every second; others meanwhile get the same look
IDLE_S = 15.0  # names that were found longer ago may be gone: a new scan begins from the start
PATIENCE_S = 5.0  # how long a question waits for a look that is under way


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
    """Looks when somebody asks, at most about once a second. Any thread may ask. ``scan`` makes a `Scan`."""

    def __init__(self, scan: Callable[[], Any], *, every_s: float = EVERY_S, idle_s: float = IDLE_S) -> None:
        self._make = scan
        self._every_s, self._idle_s = every_s, idle_s
        self._looking = threading.Lock()
        self._scan: Any = None
        self._looked_at = float("-inf")
        self._sight = Sight()

    def sight(self, patience_s: float = PATIENCE_S) -> Sight:
        """The last look; a new one, if that is too old."""
        if self._looking.acquire(timeout=patience_s):
            try:
                waited = time.monotonic() - self._looked_at
                if waited > self._idle_s:
                    self._end_scan()
                if waited > self._every_s:
                    self._looked_at = time.monotonic()
                    self._sight = self._look()
            finally:
                self._looking.release()
        return self._sight

    def close(self) -> None:
        """End the connections."""
        with self._looking:
            self._end_scan()

    def _look(self) -> Sight:
        try:
            if self._scan is None:
                self._scan = self._make()
            return Sight(self._scan.look())
        except Exception as error:
            # A page shows the last snapshot beside the reason why there is no newer one.
            if not isinstance(error, RLockError):
                log.exception("a look at the masters failed")
            return Sight(self._sight.snapshot, str(error) or type(error).__name__)

    def _end_scan(self) -> None:
        scan, self._scan = self._scan, None
        if scan is not None:
            scan.close()
