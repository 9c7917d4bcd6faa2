"""The journal: what each worker writes down about every section, in a file of its own.

One line of JSON for each thing that happened, written with one system call before the worker goes on, so
that a worker that is killed has told everything up to that point. The instants are nanoseconds of one
clock of this machine, the same in every process. `Reader` makes sections out of the lines; it is all that
the checker and the screen know of the workers.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ns() -> int:
    """The present instant, on the clock that all processes of this machine share."""
    return time.clock_gettime_ns(_CLOCK)


@dataclass
class Section:
    """One passage through the critical section, as its worker saw it. Instants in nanoseconds."""

    worker: int
    phase: str
    asked_at: int  # before acquire()
    entered_at: int  # after it returned
    valid_until: int | None = None  # the last that was known of the lease; None: no lock was taken
    serial: int = 0
    left_at: int | None = None  # before release(); None: still inside, or killed in there
    thrown_out_at: int | None = None  # an error ended it
    count: int = 0  # what it made the ledger say, and on top of which entry
    parent: str = ""
    chain: str = ""
    depth: int = 0  # nested acquires inside
    found_torn: bool = False

    @property
    def ended_at(self) -> int:
        """When it ended; for a worker that was killed inside, the last that it knew of its lease."""
        for told in (self.left_at, self.thrown_out_at):
            if told is not None:
                return told
        return self.entered_at if self.valid_until is None else self.valid_until


class Journal:
    """A worker's end of it."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, kind: str, **fields: Any) -> None:
        """Add a line."""
        os.write(self._fd, json.dumps({"kind": kind, **fields}).encode() + b"\n")


class Reader:
    """Follows one worker's journal; the sections so far and what else it told."""

    def __init__(self, worker: int, path: Path) -> None:
        self.worker = worker
        self.sections: list[Section] = []
        self.inside: Section | None = None
        #: The mode that the worker has confirmed last, "" before the first.
        self.mode = ""
        #: When it announced that it stands in the middle of a rewrite.
        self.half_at: int | None = None
        #: What went wrong in it, in words.
        self.faults: list[str] = []
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> None:
        """Take in what is new; a line that is still being written waits for the next call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.take(told.pop("kind"), told)

    def take(self, kind: str, told: dict[str, Any]) -> None:
        """One line."""
        if kind == "enter":
            self.inside = Section(self.worker, **told)
            self.sections.append(self.inside)
        elif kind == "leave" and self.inside is not None:
            for name, value in told.items():
                setattr(self.inside, name, value)
            self.inside = None
        elif kind == "valid" and self.inside is not None:
            self.inside.valid_until = told["until"]
        elif kind == "half":
            self.half_at = told["at"]
        elif kind == "mode":
            self.mode = told["mode"]
        elif kind == "fault":
            self.faults.append(f"worker {self.worker}: {told['text']}")
        elif kind == "thrown out" and self.inside is not None:
            self.inside.thrown_out_at = told["at"]
            self.inside = None
