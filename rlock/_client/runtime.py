"""Runtime: how a driver waits.

Threads block, tasks yield to their event loop, the simulation lets virtual time pass.

Everything that waits does so through a `Parker`, as in trio's `ParkingLot`: one thread or task sleeps,
another one wakes it. A wake-up that comes before the sleep is kept, so nothing is lost between the last look
and the sleep.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..clock import Clock
from ..procedures.port import WaitGenerator

#: ``yield from NO_WAIT`` makes a generator of a method that blocks in place, or does not wait at all.
NO_WAIT: tuple[Any, ...] = ()


class Parker(ABC):
    """Where one thread or task sleeps until another one wakes it."""

    __slots__ = ()

    @abstractmethod
    def wake(self) -> None:
        """Let the sleeper look round. Called with the mutex of the state that it waits for."""

    @abstractmethod
    def clear(self) -> None:
        """Forget a wake-up whose reason is known."""

    @abstractmethod
    def park(self, timeout: float) -> WaitGenerator[bool]:
        """Sleep until a wake-up, at most ``timeout`` seconds (inf: no limit); whether one came."""


class Runtime(ABC):
    """The waiting of one driver."""

    @abstractmethod
    def parker(self) -> Parker:
        """A place to sleep for the thread or task that calls."""

    @abstractmethod
    def sleep(self, seconds: float) -> WaitGenerator[None]:
        """Let so many seconds pass (inf: until an interrupt)."""

    @abstractmethod
    def caller(self) -> object:
        """The thread or task that calls."""


class ParkingLot:
    """Threads or tasks that wait until something is true; ``mutex`` guards what they wait for."""

    def __init__(self, mutex: threading.Lock, clock: Clock, runtime: Runtime) -> None:
        self._mutex = mutex
        self._clock = clock
        self._runtime = runtime
        self._parked: list[Parker] = []

    def wait_until(self, done: Callable[[], bool], timeout: float) -> WaitGenerator[bool]:
        """Wait at most ``timeout`` seconds until ``done``; whether it is. Called without the mutex.

        `threading.Condition` would not do: Ctrl-C while its ``wait`` takes the lock again leaves the lock
        free inside the ``with``, whose end then raises.
        """
        until = self._clock() + timeout
        while True:
            parker = self._runtime.parker()
            with self._mutex:
                if done():
                    return True
                left = until - self._clock()
                if left <= 0:
                    return False
                self._parked.append(parker)
            try:
                yield from parker.park(left)
            finally:
                with self._mutex:
                    if parker in self._parked:
                        self._parked.remove(parker)

    def wake_all(self) -> None:
        """Let all look again. Called with the mutex."""
        parked, self._parked = self._parked, []
        for parker in parked:
            parker.wake()
