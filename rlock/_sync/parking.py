"""Waiting for something that another thread brings about, safe against Ctrl-C at any instant.

`threading.Condition` is not: an interrupt while its ``wait`` takes the lock again leaves the lock free
inside the ``with``, and its end then raises ``RuntimeError: release unlocked lock``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class ParkingLot:
    """Threads that wait until something is true; ``mutex`` guards what they wait for."""

    def __init__(self, mutex: threading.Lock) -> None:
        self._mutex = mutex
        self._parked: list[threading.Lock] = []

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait at most ``timeout`` seconds; the last value. Called without the mutex."""
        until = time.monotonic() + timeout
        while True:
            parker = threading.Lock()
            parker.acquire()
            with self._mutex:
                if predicate():
                    return True
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._parked.append(parker)
            try:
                parker.acquire(timeout=min(left, threading.TIMEOUT_MAX))
            finally:
                with self._mutex:
                    if parker in self._parked:
                        self._parked.remove(parker)

    def notify_all(self) -> None:
        """Let all look again. Called with the mutex held."""
        parked, self._parked = self._parked, []
        for parker in parked:
            parker.release()
