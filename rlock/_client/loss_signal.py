"""The part of a loss signal that threads and tasks share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..clock import Clock
from ..model import LeaseState
from ..rules.holds import Hold


class LossSignal(ABC):
    """See `rlock.LossSignal`."""

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        self._hold = hold
        self._clock = clock
        self._set = False

    def set(self) -> None:
        """For the watchdog."""
        if not self._set:
            self._set = True
            self._wake()

    @abstractmethod
    def _wake(self) -> None:
        """Wake all waiters."""

    def is_set(self) -> bool:
        """Whether the hold was lost. No network."""
        if self._hold is not None and self._hold.lease.state_at(self._clock()) is LeaseState.LOST:
            self.set()
        return self._set

    def _left(self, until: float | None) -> float | None:
        """Seconds to sleep before the next look; None: until `set`."""
        now = self._clock()
        left = None if until is None else until - now
        if self._hold is not None and self._hold.lease.state in (LeaseState.HELD, LeaseState.SUSPECT):
            # A waiter wakes at the end of the validity, also when the watchdog is late.
            end = max(self._hold.lease.valid_until - now, 0.001)
            left = end if left is None else min(left, end)
        return left

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
