"""The event that tells of a loss."""

from __future__ import annotations

import threading

from ..clock import Clock
from ..model import LeaseState
from ..rules.holds import Hold


class LossSignal:
    """Like a ``threading.Event`` that is set when one hold is lost; nobody else can set or clear it.

    It is right at the moment of the question: it looks at the clock, and does not wait for the watchdog
    to have noticed. A hold that was released in time never sets it.
    """

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        self._hold = hold
        self._clock = clock
        self._event = threading.Event()

    def set(self) -> None:
        """For the watchdog."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the hold was lost. No network."""
        if self._hold is not None and self._hold.lease.state_at(self._clock()) is LeaseState.LOST:
            self._event.set()
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        until = None if timeout is None else self._clock() + timeout
        while not self.is_set():
            now = self._clock()
            left = None if until is None else until - now
            if left is not None and left <= 0:
                return False
            if self._hold is not None and self._hold.lease.state in (LeaseState.HELD, LeaseState.SUSPECT):
                # Not later than the end of the validity, whether or not the watchdog says so.
                end = max(self._hold.lease.valid_until - now, 0.001)
                left = end if left is None else min(left, end)
            self._event.wait(left)
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
