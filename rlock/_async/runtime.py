"""How tasks wait: they yield futures to their event loop, so a generator of this driver can be awaited."""

import asyncio
import math
import types
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from .._client import runtime
from ..procedures.port import T, WaitGenerator


@types.coroutine
def _run(generator: WaitGenerator[T]) -> WaitGenerator[T]:
    return (yield from generator)


#: Await a generator of this driver. A cancellation is thrown into it where it waits.
run = cast("Callable[[WaitGenerator[T]], Awaitable[T]]", _run)


#: `yield from` it before the time counts as over: replies may have arrived while another task kept the event
#: loop from running. The loop finds them in its next pass, and reads them in that one or the next.
#: uvloop runs timers before it reads, and tasks before the reads of the same pass.
TWO_PASSES = (None, None)


class Parker(runtime.Parker):
    """A future on which one task sleeps.

    A wake-up of a task that is awake is not kept: no other task runs between its last check and its sleep.
    """

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[bool] | None = None

    def wake(self) -> None:
        if self._future is not None:
            _end(self._future)

    def clear(self) -> None:
        pass

    def park(self, timeout: float) -> WaitGenerator[bool]:
        loop = asyncio.get_running_loop()
        future = self._future = loop.create_future()
        timer = loop.call_later(max(timeout, 0.0), _end, future, False) if timeout < math.inf else None
        try:
            woken: bool = yield from future
        finally:
            self._future = None
            if timer is not None:
                timer.cancel()
        if not woken:
            yield from TWO_PASSES
        return woken


def _end(future: asyncio.Future[bool], woken: bool = True) -> None:
    if not future.done():
        future.set_result(woken)


class Runtime(runtime.Runtime):
    def parker(self) -> Parker:
        return Parker()

    def sleep(self, seconds: float) -> WaitGenerator[None]:
        yield from Parker().park(seconds)

    def repeat(self, seconds: float, function: Callable[[], bool]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def work() -> None:
            timers[0] = loop.call_later(seconds, work)  # first: an exception must not end the calls
            if not function():
                timers[0].cancel()

        timers = [loop.call_later(seconds, work)]
        return lambda: timers[0].cancel()

    def later(self, work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # no loop runs: the lease ends by itself
            asyncio.get_running_loop().call_soon(work)

    def caller(self) -> object:
        return asyncio.current_task()
