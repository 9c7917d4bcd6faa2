"""What an adapter gives to the worker. Standard library only: it is imported in every environment."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Unsupported(Exception):
    """This library has no such thing."""


class Lock(NamedTuple):
    """One lock, as its library has it. Errors are the library's own and count as failures."""

    acquire: Callable[[float], Any]  # waits so many seconds; false: it was not acquired
    release: Callable[[], Any]


class Library(ABC):
    """A library for threads, opened on its masters."""

    version: str
    #: Whether one lock object can be acquired again by the thread that holds it.
    reentrant = False

    @abstractmethod
    def lock(self, name: str) -> Lock:
        """A lock object for one thread; the worker makes one for each thread and name."""

    def shared(self, name: str) -> Lock:
        """The reader of this name, whose writer is `lock`."""
        raise Unsupported("it has no readers")

    def kept(self, name: str) -> Lock:
        """The same, for a lock that is held for long: renewed by what the library has for that."""
        raise Unsupported("nothing in it renews a lock that is held")


class AsyncLibrary(Library):
    """A library for an event loop: its locks return awaitables. `start` runs before anything else."""

    async def start(self) -> None:
        """Connect, if the library connects ahead."""


#: Tries that one call makes at the most where a library counts tries and knows no time-out.
MOST_TRIES = 50


def tries(wait_s: float, delay_s: float) -> Iterator[int]:
    """How many tries to ask for, again and again until the time is over; ``delay_s``: between two of them.

    A try takes time itself, and the more the more processes there are: who asked for all its tries at once
    would wait several times as long as it was told to. So it asks again after `MOST_TRIES`.
    """
    until = time.monotonic() + wait_s
    left = wait_s
    while True:
        yield max(1, min(MOST_TRIES, math.ceil(left / delay_s)))
        left = until - time.monotonic()
        if left <= 0:
            return
