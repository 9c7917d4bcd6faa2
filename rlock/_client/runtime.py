"""Runtime: how a driver waits. Threads block, tasks yield to their event loop, the simulation lets time pass.

A thread or task sleeps on a `Parker` until another one wakes it. A wake-up that comes before the sleep is
kept. So none is lost between the last check and the sleep.
"""

from __future__ import annotations

import math
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from ..clock import Clock
from ..model import LeaseState
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold

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


class Waiter(Protocol):
    """A call or an inbox whose thread or task waits for something that comes over connections."""

    parker: Any  # a `Parker`; None: it never had to sleep
    deadline: float  # the end of its wait, unless that ends before; it may change during the wait

    @property
    def asleep(self) -> bool: ...


class Runtime(ABC):
    @abstractmethod
    def parker(self) -> Parker: ...

    @abstractmethod
    def sleep(self, seconds: float) -> WaitGenerator[None]:
        """Let so many seconds pass (inf: until an interrupt)."""

    @abstractmethod
    def repeat(self, seconds: float, function: Callable[[], bool]) -> Callable[[], None]:
        """Call it every so many seconds until it returns False. Returns its end. RuntimeError: no threads."""

    def later(self, work: Callable[[], object]) -> None:
        """Do it in another thread: the calling one is in the middle of a change."""
        # Not by `threading.Thread`: its start waits, and takes mutexes that the caller may have interrupted.
        with suppress(RuntimeError):  # no more threads: the lease ends by itself
            start_new_thread(work, ())

    @abstractmethod
    def caller(self) -> object: ...


class LossSignal:
    """See `rlock.LossSignal`."""

    def __init__(self, hold: Hold | None, clock: Clock, runtime: Runtime) -> None:
        self._hold = hold
        self._clock = clock
        self._runtime = runtime
        self._set = False
        #: No mutex guards it: a signal handler that asks `is_set` would wait for its own thread.
        self._waiting: list[Parker] = []

    def set(self) -> None:
        # First: a waiter that is not in the list yet sees it before it sleeps.
        self._set = True
        for parker in [*self._waiting]:
            with suppress(RuntimeError):  # another thread has woken it meanwhile, or its event loop is closed
                self._wake(parker)

    def _wake(self, parker: Parker) -> None:
        parker.wake()

    def is_set(self) -> bool:
        """Whether the hold was lost. Sends nothing."""
        if self._hold is not None and self._hold.lease.state_at(self._clock()) is LeaseState.LOST:
            self.set()
        return self._set

    def _wait_gen(self, timeout: float | None) -> WaitGenerator[bool]:
        until, parker = self._clock() + (math.inf if timeout is None else timeout), self._runtime.parker()
        self._waiting.append(parker)
        try:
            while not self.is_set():
                now = self._clock()
                if now >= until:
                    return False
                yield from parker.park(min(until - now, self._valid_for(now)))
            return True
        finally:
            self._waiting.remove(parker)

    def _valid_for(self, now: float) -> float:
        """The time to the end of the validity: a waiter wakes then, also when the watchdog is late."""
        if self._hold is None or self._hold.lease.state not in (LeaseState.HELD, LeaseState.SUSPECT):
            return math.inf
        return max(self._hold.lease.valid_until - now, 0.001)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self.is_set() else 'unset'}>"
