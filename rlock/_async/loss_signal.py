"""The loss signal of tasks."""

from __future__ import annotations

import asyncio

from .._client import loss_signal, runtime
from ..clock import Clock
from ..rules.holds import Hold
from .runtime import Runtime, run


class LossSignal(loss_signal.LossSignal):
    """As `rlock.LossSignal`, for tasks: ``wait`` is a coroutine. A thread may ask ``is_set()``."""

    def __init__(self, hold: Hold | None, clock: Clock) -> None:
        super().__init__(hold, clock, Runtime())
        self._loop = asyncio.get_running_loop()

    def _wake(self, parker: runtime.Parker) -> None:
        # A thread that was given the signal may be the first to see the loss.
        self._loop.call_soon_threadsafe(parker.wake)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        return await run(self._wait_gen(timeout))
