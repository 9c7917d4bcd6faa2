"""The state of a running demo. Phases change it, the display shows it."""

from __future__ import annotations

import enum
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.local.embedded import Master

#: The lock that all workers contend for.
LOCK = "rlock-demo:counter"


class Progress(enum.Enum):
    """The progress of a phase."""

    AHEAD = "ahead"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Phase:
    """One phase: its title, its progress, its figures so far."""

    title: str
    progress: Progress = Progress.AHEAD
    figures: str = ""


@dataclass
class State:
    """Everything that a display shows."""

    headline: str
    masters: Sequence[Master]
    workers: WorkerProcesses
    phases: list[Phase]
    began: float = field(default_factory=time.monotonic)
    #: Log messages of the library that no display has shown yet.
    messages: deque[str] = field(default_factory=deque)


class LogMessages(logging.Handler):
    """Keeps the library's log messages for the display, which prints them with their time."""

    def __init__(self, state: State) -> None:
        super().__init__(logging.WARNING)
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        """Called in any thread."""
        self._state.messages.append(f"rlock: {record.getMessage()}")

    def __enter__(self) -> None:
        log = logging.getLogger("rlock")
        log.addHandler(self)
        log.propagate = False

    def __exit__(self, *_: object) -> None:
        log = logging.getLogger("rlock")
        log.removeHandler(self)
        log.propagate = True
