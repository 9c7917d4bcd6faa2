"""The loss signal of tasks."""

from __future__ import annotations

import asyncio
import math

from .._client import loss_signal
from ..clock import Clock
from ..rules.holds import Hold
from .runtime import Parker, run


class LossSignal(loss_signal.LossSignal):
    """As `rlock.LossSignal`, for tasks: ``wait`` is a coroutine. A thread may ask ``is_set()``."""

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        super().__init__(hold, clock)
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Parker] = []

    def _wake(self) -> None:
        # Thread-safe: a thread that was given the signal may be the first to see the loss.
        for parker in [*self._waiting]:
            self._loop.call_soon_threadsafe(parker.wake)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        until, parker = None if timeout is None else self._clock() + timeout, Parker()
        self._waiting.append(parker)
        try:
            while not self.is_set():
                left = self._left(until)
                if left is not None and left <= 0:
                    return False
                await run(parker.park(math.inf if left is None else left))
            return True
        finally:
            self._waiting.remove(parker)
