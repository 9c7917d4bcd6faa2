"""The journal: each process notes its calls of locks, on the clock that all processes of a machine share.

A line is a JSON object with ``event`` and ``at``, the instant in nanoseconds. Each process has its own file,
``<process>.jsonl``, and writes a line with one system call: SIGKILL loses at most the line on its way.

| event    | noted                                   | further fields                                  |
|----------|-----------------------------------------|-------------------------------------------------|
| acquire  | before ``acquire`` is called            | attempt, thread, lock, timeout, fair, shared, within |
| arrived  | when it has a place in the queue (soak) | attempt                                         |
| acquired | after it returned True                  | attempt, valid_until, token, hold_count, ttl, owner |
| valid    | now and then while the lock is held     | attempt, valid_until                            |
| release  | before ``release`` is called            | attempt, valid_until, hold_count                |
| released | after it returned or raised             | attempt, outcome, hold_count                    |
| done     | when nothing of the attempt is held     | attempt, outcome, error                         |
| stalled  | when the process did not run (soak)     | since                                           |
| idle     | when an order is done; 0: it can begin  | order                                           |
| end      | when the process ends by itself         |                                                 |

``shared``: it asks for the reader; ``within``: while it holds the writer, by this attempt of its.
``attempt`` numbers the outermost acquires of a process; a nested acquire has the number of the outermost one.
``acquire`` and ``acquired`` (or ``done``, if the lock was not acquired) are the invocation and the return of
one operation, ``release`` and ``released`` those of another. ``valid_until`` is 0 when no validity is left,
and ``by`` is then the instant at which the client had said so.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
#: The clock of rlock.clock, in nanoseconds: it counts suspend, so a suspended process finds its lease over.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ns() -> int:
    """This instant, the same for every process of this machine."""
    return time.clock_gettime_ns(_CLOCK)


class Journal:
    """The notes of one process. Any thread may write.

    While ``buffered`` is set, lines stay in memory until `flush`: a measurement must not include the writing.
    """

    def __init__(self, folder: Path, process: str) -> None:
        path = folder / f"{process}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[dict[str, Any]] = []
        self.buffered = False

    def note(self, event: str, at: int | None = None, **fields: Any) -> None:
        """Add a line."""
        line = {"event": event, "at": now_ns() if at is None else at, **fields}
        if self.buffered:
            self._lines.append(line)
        else:
            self._write(line)

    def flush(self) -> None:
        """Write the lines that are in memory, and keep none from now on."""
        self.buffered = False
        for line in self._lines:
            self._write(line)
        self._lines.clear()

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
