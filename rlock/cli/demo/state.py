"""The state of a running demo. Phases change it, the display shows it."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import rlock
from rlock.model import LockStatus
from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.local.embedded import Master

#: The lock that all workers contend for.
LOCK = "rlock-demo:counter"
OBSERVE_S = 0.2
EVENTS = 5


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
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=EVENTS))
    #: Log messages of the library that no display has shown yet.
    messages: deque[str] = field(default_factory=deque)
    status: LockStatus | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def votes(self) -> list[str]:
        """For each master: killed, free, or the holder that it names."""
        texts = []
        views = self.status.masters if self.status is not None else ()
        for i, master in enumerate(self.masters):
            if not master.running:
                texts.append("killed")
            elif i >= len(views):
                texts.append("up")
            else:
                texts.append(self._vote(views[i].holder, views[i].remaining))
        return texts

    def _vote(self, holder: str | None, remaining: float | None) -> str:
        if holder is None:
            return "up, free"
        # <client> is host/pid/thread
        pid = holder.split("/")[1] if holder.count("/") >= 2 else holder
        name = next((worker.name for worker in self.workers.workers if str(worker.pid) == pid), f"pid {pid}")
        return f"up, {name}" + (f" for {remaining:.1f} s" if remaining is not None else "")


class Observer(logging.Handler):
    """Asks the masters a few times a second who holds the lock, with a client of its own.

    Log messages of the library go to the state: on the terminal they would tear the dashboard.
    """

    def __init__(self, state: State, urls: Sequence[str], ttl: float) -> None:
        super().__init__(logging.WARNING)
        self._state = state
        self._client = rlock.Client(urls, ttl, max_ttl=ttl)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Called in any thread."""
        self._state.messages.append(f"rlock: {record.getMessage()}")

    def __enter__(self) -> None:
        log = logging.getLogger("rlock")
        log.addHandler(self)
        log.propagate = False
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()
        log = logging.getLogger("rlock")
        log.removeHandler(self)
        log.propagate = True

    def _run(self) -> None:
        while not self._ended.wait(OBSERVE_S):
            try:
                self._state.status = self._client.status(LOCK)
            except rlock.RLockError:
                self._state.status = None
