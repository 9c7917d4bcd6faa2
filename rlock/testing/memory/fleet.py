"""MemoryMasters: a fleet of masters in memory, for clients that share it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...errors import OptionsError
from .server import MemoryMaster

_numbers = itertools.count(1)


class MemoryMasters:
    """``n`` masters in the memory of this process. No server, no port, no thread; nothing to close.

    Give them to each client that shares the locks: ``memory_client(masters=fleet)``. A client stands for a
    process: two clients exclude each other. ``fleet[0]`` is a `MemoryMaster`, with its faults.

    A forked child has a copy of its own: processes do not share locks. Unlike on a server, Ctrl-C may end a
    script half-way: make a new fleet after it.
    """

    def __init__(self, n: int = 1) -> None:
        if n < 1:
            raise OptionsError(f"a fleet needs at least one master, not {n}")
        number = next(_numbers)
        #: The masters, in order, for `rlock.Client`.
        self.masters = [MemoryMaster(f"memory://{number}/{i + 1}") for i in range(n)]

    def flush(self) -> None:
        """Drop all locks and queues, for the next test."""
        for master in self.masters:
            master.flush()

    def __len__(self) -> int:
        return len(self.masters)

    def __iter__(self) -> Iterator[MemoryMaster]:
        return iter(self.masters)

    def __getitem__(self, index: int) -> MemoryMaster:
        return self.masters[index]

    def __repr__(self) -> str:
        return f"<rlock.testing.MemoryMasters {', '.join(master.label for master in self.masters)}>"
