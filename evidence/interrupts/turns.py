"""A cancellation behind the n-th callback of an event loop, in virtual time.

A task can be cancelled between any two callbacks of its loop, and nowhere else. So these are all instants:
each suspension while the task waits, and again when its result has come and it has not run since.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from rlock import clock

from .instants import Stuck, is_ours, place

#: The duration of one turn of the loop. Otherwise busy tasks would stop the time.
TURN_S = 0.0001


AGAIN, ALL = "again and again", "with ours"


class Instant:
    """The ``at``-th callback behind which the task is cancelled.

    ``work``: AGAIN, also behind each one after it; ALL, together with the client's own tasks.
    """

    def __init__(self, at: int, work: str) -> None:
        self.at, self._work = at, work
        self.task: asyncio.Task[Any] | None = None  # the task, while the operation is under way
        self.passed = 0
        self.place = ""

    @property
    def reached(self) -> bool:
        return self.passed >= self.at

    def on_callback(self) -> None:
        if self.task is None or self.task.done():
            return
        self.passed += 1
        if self.passed == self.at:
            self.place = _place(self.task.get_coro())
            if self._work == ALL:
                for task in asyncio.all_tasks(self.task.get_loop()):
                    if task.get_name() in ("rlock-watchdog", "rlock-dial"):
                        task.cancel()
        if self.passed == self.at or (self.reached and self._work == AGAIN):
            self.task.cancel()


def _place(waiting: Any) -> str:
    """Where rlock's part of a task waits."""
    found = "outside"
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None and is_ours(frame.f_code):
            found = place(frame)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return found


class _Selector(selectors.DefaultSelector):
    """Lets the time pass instead of waiting."""

    now, until = 0.0, 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if timeout is None and not found:
            raise Stuck("a loop in which nothing is due")
        self.now += max(timeout or 0.0, TURN_S)
        if self.now > self.until:
            raise Stuck(f"{self.until:g} s")
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, limit_s: float) -> None:
        self._virtual = _Selector()
        self._virtual.until = limit_s
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


@contextmanager
def _patched(loop: _Loop, on_callback: Callable[[], None]) -> Iterator[None]:
    genuine, now = asyncio.Handle._run, clock.now

    def run(handle: asyncio.Handle) -> None:
        genuine(handle)
        on_callback()

    asyncio.Handle._run = run  # type: ignore[method-assign, assignment]
    clock.now = loop.time
    try:
        yield
    finally:
        asyncio.Handle._run = genuine  # type: ignore[method-assign]
        clock.now = now


def run(main: Coroutine[Any, Any, list[str]], instant: Instant, limit_s: float) -> list[str]:
    """Run it in a loop of its own. Returns its faults, and the complaints of asyncio and Python."""
    loop, wrong = _Loop(limit_s), []
    loop.set_exception_handler(lambda _, context: wrong.append(f"{context['message']}: {_error(context)}"))
    with _patched(loop, instant.on_callback), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            wrong += loop.run_until_complete(main)
        except Stuck as stuck:
            wrong.append(f"it stands still for {stuck}, behind {instant.place}")
        except (Exception, asyncio.CancelledError) as error:
            wrong.append(f"behind it: {error!r}")
        left = asyncio.all_tasks(loop)
        wrong += [f"{task.get_name()} still runs" for task in left]
        for task in left:
            task.cancel()
        loop._virtual.until += limit_s
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        gc.collect()  # a task that was never awaited complains now
        loop.close()
    return wrong + [str(each.message) for each in warned]


def _error(context: dict[str, Any]) -> str:
    return repr(context.get("exception", ""))
