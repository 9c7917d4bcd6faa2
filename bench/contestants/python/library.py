"""What an adapter gives to the worker. Standard library only: it is imported in every environment."""

from __future__ import annotations

import os
import resource
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol


class Unsupported(Exception):
    """This library has no such thing."""


class Lock(Protocol):
    """One lock, as its library has it. Errors are the library's own and count as failures."""

    def acquire(self, wait_s: float) -> bool: ...

    def release(self) -> None: ...


class AsyncLock(Protocol):
    async def acquire(self, wait_s: float) -> bool: ...

    async def release(self) -> None: ...


class Library(ABC):
    """A library for threads, opened on its masters."""

    name: str
    version: str
    #: Whether one lock object can be acquired again by the thread that holds it.
    reentrant = False
    #: The requests that it can answer; None: all.
    verbs: Collection[str] | None = None

    @abstractmethod
    def lock(self, name: str) -> Lock:
        """A lock object for one thread; the worker makes one for each thread and name."""


class AsyncLibrary(ABC):
    """A library for an event loop. `start` runs in it before anything else."""

    name: str
    version: str
    reentrant = False
    verbs: Collection[str] | None = None

    async def start(self) -> None:  # noqa: B027  (not every library connects ahead)
        """Connect."""

    @abstractmethod
    def lock(self, name: str) -> AsyncLock:
        """A lock object for one task; the worker makes one for each task and name."""


def usage() -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"cpu_ns": round((used.ru_utime + used.ru_stime) * 1e9), "rss_bytes": resident}
