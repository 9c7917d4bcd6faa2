"""The part of a loss signal that threads and tasks share."""

from __future__ import annotations

import math

from ..clock import Clock
from ..model import LeaseState
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold
from .runtime import Parker, Runtime


class LossSignal:
    """See `rlock.LossSignal`."""

    def __init__(self, hold: Hold | None, clock: Clock, runtime: Runtime) -> None:
        self._hold = hold
        self._clock = clock
        self._runtime = runtime
        self._set = False
        #: No mutex guards it: a signal handler that asks `is_set` would wait for its own thread.
        self._waiting: list[Parker] = []

    def set(self) -> None:
        # First: a waiter that is not in the list yet sees it before it sleeps.
        self._set = True
        for parker in [*self._waiting]:
            try:
                self._wake(parker)
            except RuntimeError:
                pass  # another thread has woken it at the same time, or its event loop is closed

    def _wake(self, parker: Parker) -> None:
        parker.wake()

    def is_set(self) -> bool:
        """Whether the hold was lost. No network."""
        if self._hold is not None and self._hold.lease.state_at(self._clock()) is LeaseState.LOST:
            self.set()
        return self._set

    def _wait_gen(self, timeout: float | None) -> WaitGenerator[bool]:
        until, parker = self._clock() + (math.inf if timeout is None else timeout), self._runtime.parker()
        self._waiting.append(parker)
        try:
            while not self.is_set():
                now = self._clock()
                if now >= until:
                    return False
                yield from parker.park(min(until - now, self._valid_for(now)))
            return True
        finally:
            self._waiting.remove(parker)

    def _valid_for(self, now: float) -> float:
        """The time to the end of the validity: a waiter wakes then, also when the watchdog is late."""
        if self._hold is None or self._hold.lease.state not in (LeaseState.HELD, LeaseState.SUSPECT):
            return math.inf
        return max(self._hold.lease.valid_until - now, 0.001)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
