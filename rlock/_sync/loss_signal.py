"""The loss signal of threads."""

from __future__ import annotations

from .._client import loss_signal
from ..clock import Clock
from ..rules.holds import Hold
from .runtime import Runtime, run


class LossSignal(loss_signal.LossSignal):
    """Like a ``threading.Event`` that is set when one hold is lost; only rlock can set it.

    The answer is right at the moment of the question: it comes from the clock, and does not wait for the
    watchdog to notice the loss. A hold that was released in time never sets the signal.
    """

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        super().__init__(hold, clock, Runtime())

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        return run(self._wait_gen(timeout))
