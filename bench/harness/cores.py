"""Where processes run: contestants on one half of the cores, their master on the other half.

A client that waits for one master sleeps meanwhile, and so does the master. The kernel may put both on one
core, or wake another core for each hop. That changes the time of a pair by a half or more, and differs from
turn to turn. With one half each it is the same for all contestants, and like a master on another machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

Cores = frozenset[int]


def halves() -> tuple[Cores, Cores] | None:
    """The cores of contestants and those of masters; None with one core, or without a way to choose."""
    if not hasattr(os, "sched_setaffinity"):  # macOS
        return None
    cores = sorted(os.sched_getaffinity(0))
    middle = len(cores) // 2
    return (frozenset(cores[:middle]), frozenset(cores[middle:])) if middle else None


@contextlib.contextmanager
def started_on(cores: Iterable[int]) -> Iterator[None]:
    """Processes that this thread starts in the block run on these cores: a runtime counts cores once."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move(pid: int, cores: Iterable[int]) -> None:
    """A process that runs already, and all of its threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def described() -> str:
    both = halves()
    if both is None:
        return "as the kernel does it"
    contestants, masters = (", ".join(map(str, sorted(cores))) for cores in both)
    return f"one master: contestants on core {contestants}, it on core {masters}"
