"""The event that tells of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..clock import Clock
from ..model import LeaseState
from ..rules.holds import Hold


class LossSignal(ABC):
    """Like an ``Event`` that is set when one hold is lost; nobody else can set or clear it.

    It is right at the moment of the question: it looks at the clock, and does not wait for the watchdog
    to have noticed. A hold that was released in time never sets it.
    """

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        self._hold = hold
        self._clock = clock
        self._set = False

    def set(self) -> None:
        """For the watchdog."""
        if not self._set:
            self._set = True
            self._tell()

    @abstractmethod
    def _tell(self) -> None:
        """Wake those who wait."""

    def is_set(self) -> bool:
        """Whether the hold was lost. No network."""
        if self._hold is not None and self._hold.lease.state_at(self._clock()) is LeaseState.LOST:
            self.set()
        return self._set

    def _left(self, until: float | None) -> float | None:
        """How long to sleep before the next look; None: until told."""
        now = self._clock()
        left = None if until is None else until - now
        if self._hold is not None and self._hold.lease.state in (LeaseState.HELD, LeaseState.SUSPECT):
            # Not later than the end of the validity, whether or not the watchdog says so.
            end = max(self._hold.lease.valid_until - now, 0.001)
            left = end if left is None else min(left, end)
        return left

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
