"""Runtime: how a driver waits. Threads block, tasks yield to their event loop, the simulation lets time pass.

A thread or task sleeps on a `Parker` until another one wakes it. A wake-up that comes before the sleep is
kept. So none is lost between the last check and the sleep.
"""

import _thread
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from ..procedures.port import T, WaitGenerator

#: ``yield from NO_WAIT`` makes a generator of a method that blocks in place, or does not wait at all.
NO_WAIT: tuple[Any, ...] = ()


def run(generator: WaitGenerator[T]) -> T:
    """The result of a generator that blocks in place and yields nothing, as those of threads."""
    try:
        generator.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a generator of the blocking driver yielded instead of blocking in place")


class Background:
    """A daemon thread that may be started with a mutex. Raises RuntimeError if there are no more threads."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work, self._name, self._ident = work, name, 0
        self._ended = threading.Event()
        # Not in place: `Thread.start` waits for the new thread, in which a finalizer may want that mutex.
        _thread.start_new_thread(self._start, ())

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except Exception:  # no more threads: this one does the work
            self._run()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            self._work()
        finally:
            self._ended.set()

    def join(self) -> None:
        """Wait for its end, for a second at the most. In the thread itself: do nothing."""
        if self._ident != threading.get_ident():
            self._ended.wait(1.0)


RunningCalls = dict[Hashable, "Future[Any]"]  # calls in threads of their own, by key; some may have ended


def in_thread(calls: RunningCalls, key: Hashable, function: Callable[[], T]) -> Future[T]:
    """The outcome of a call that may hang. While one with this key runs, its outcome stands for all.

    A daemon thread makes it, and no executor: otherwise the process could not end while a call hangs. Raises
    RuntimeError if there are no more threads.
    """

    def work() -> None:
        try:
            found.set_result(function())
        except BaseException as error:  # otherwise all later calls with this key would wait for it
            found.set_exception(error)

    key = os.getpid(), key  # a forked child has none of these threads
    if (running := calls.get(key)) is not None and not running.done():
        return running
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # a task that is cancelled must not end it for the others
    threading.Thread(target=work, name="rlock-call", daemon=True).start()
    calls[key] = found  # not before: Ctrl-C would leave it without an outcome, for ever
    return found


class Parker(Protocol):
    __slots__ = ()

    def wake(self) -> None:
        """Wake the sleeper. Called with the mutex of the state that it waits for."""

    def clear(self) -> None:
        """Forget a wake-up whose reason is known."""

    def park(self, timeout: float) -> WaitGenerator[bool]:
        """Sleep until a wake-up, at most ``timeout`` seconds (inf: no limit); whether one came."""


class Waiter(Protocol):
    """A call or an inbox whose thread or task waits for something that comes over connections."""

    parker: Any  # a `Parker`; None: it never had to sleep
    deadline: float  # the end of its wait, unless that ends before; it may change during the wait

    @property
    def asleep(self) -> bool: ...


class Runtime(Protocol):
    def parker(self) -> Parker: ...

    def sleep(self, seconds: float) -> WaitGenerator[None]:
        """Let so many seconds pass (inf: until an interrupt)."""

    def repeat(self, seconds: float, function: Callable[[], bool]) -> Callable[[], None]:
        """Call it every so many seconds until it returns False. Returns its end. RuntimeError: no threads."""

    def later(self, work: Callable[[], object]) -> None:
        """Do it in another thread: the calling one is in the middle of a change."""
        with suppress(RuntimeError):  # no more threads: the lease ends by itself
            # Not by `threading.Thread`: its start takes mutexes that the caller may have interrupted.
            _thread.start_new_thread(work, ())

    def caller(self) -> object: ...
