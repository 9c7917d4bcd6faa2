"""Runtime: how a driver waits. Threads block, tasks yield to their event loop, the simulation lets time pass.

All waiting is done by a `Parker`, as in trio's `ParkingLot`: one thread or task sleeps, another one wakes it.
A wake-up that comes before the sleep is kept, so none is lost between the last check and the sleep.
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
        """Wake the sleeper. Called with the mutex of the state that it waits for."""

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
        """A parker for the calling thread or task."""

    @abstractmethod
    def sleep(self, seconds: float) -> WaitGenerator[None]:
        """Let so many seconds pass (inf: until an interrupt)."""

    @abstractmethod
    def caller(self) -> object:
        """The calling thread or task."""


class ParkingLot:
    """Threads or tasks that wait until something is true; ``mutex`` guards what they wait for.

    Not `threading.Condition`: after Ctrl-C while its ``wait`` takes the lock again, the ``with`` raises
    because the lock is free.
    """

    def __init__(self, mutex: threading.Lock, clock: Clock, runtime: Runtime) -> None:
        self._mutex = mutex
        self._clock = clock
        self._runtime = runtime
        self._parked: list[Parker] = []

    def wait_until(self, done: Callable[[], bool], timeout: float) -> WaitGenerator[bool]:
        """Wait at most ``timeout`` seconds until ``done``; whether it is. Called without the mutex."""
        until, parker = self._clock() + timeout, self._runtime.parker()
        try:
            while True:
                with self._mutex:
                    if done():
                        return True
                    left = until - self._clock()
                    if left <= 0:
                        return False
                    if parker not in self._parked:
                        self._parked.append(parker)
                yield from parker.park(left)
        finally:
            with self._mutex:
                if parker in self._parked:
                    self._parked.remove(parker)

    def wake_all(self) -> None:
        """Let all check again. Called with the mutex."""
        for parker in self._parked:
            parker.wake()
