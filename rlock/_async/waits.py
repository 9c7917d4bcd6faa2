"""Waiting by tasks: a program yields futures to the event loop, and so can be awaited as it is."""

from __future__ import annotations

import asyncio
import math
import types
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from .._client.waits import Waits

T = TypeVar("T")


@types.coroutine
def _run(program: Waits[T]) -> Waits[T]:
    return (yield from program)


#: Await a program of this driver. A cancellation is thrown into it where it waits.
run = cast("Callable[[Waits[T]], Awaitable[T]]", _run)


class Parker:
    """Where one task sleeps until it is stirred. Stirring one that is awake is nothing to be remembered:
    between its last look and its sleep no other task runs.
    """

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[bool] | None = None

    def stir(self) -> None:
        """Let it look round."""
        if self._future is not None:
            _end(self._future)

    def expire(self) -> None:
        """Let it look round because its time is over."""
        if self._future is not None:
            _end(self._future, False)

    def sleeping(self, timeout: float) -> Waits[bool]:
        """Until it is stirred, or for so many seconds (inf: no limit); whether it was stirred."""
        loop = asyncio.get_running_loop()
        future = self._future = loop.create_future()
        timer = loop.call_later(max(timeout, 0.0), _end, future, False) if timeout < math.inf else None
        try:
            stirred: bool = yield from future
        finally:
            self._future = None
            if timer is not None:
                timer.cancel()
        if not stirred:
            # uvloop runs timers before it reads: what has arrived while a task kept the loop from running
            # has to count. A task's turn comes before what was read in the same iteration.
            yield
            yield
        return stirred


def _end(future: asyncio.Future[bool], stirred: bool = True) -> None:
    if not future.done():
        future.set_result(stirred)
