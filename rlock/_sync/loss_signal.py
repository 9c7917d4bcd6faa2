"""The loss signal of threads."""

from __future__ import annotations

import threading

from .._client import loss_signal
from ..clock import Clock
from ..rules.holds import Hold


class LossSignal(loss_signal.LossSignal):
    """Like a ``threading.Event`` that is set when one hold is lost; only rlock can set it.

    The answer is right at the moment of the question: it comes from the clock, and does not wait for the
    watchdog to notice the loss. A hold that was released in time never sets the signal.
    """

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        super().__init__(hold, clock)
        self._event = threading.Event()

    def _wake(self) -> None:
        self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        until = None if timeout is None else self._clock() + timeout
        while not self.is_set():
            left = self._left(until)
            if left is not None and left <= 0:
                return False
            self._event.wait(left)
        return True
