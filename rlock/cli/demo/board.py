"""The board: everything that can be seen of a running demonstration. Acts fill it, screens draw it."""

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
from rlock.testing.local.embedded import Master

from .crew import Crew
from .worker import LOCK

OBSERVE_S = 0.2
EVENTS = 5


class Progress(enum.Enum):
    """Where an act stands."""

    AHEAD = "ahead"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass
class ActLine:
    """One act: what it is called, where it stands, its figures so far."""

    title: str
    progress: Progress = Progress.AHEAD
    figures: str = ""


@dataclass
class Board:
    """What there is to see."""

    headline: str
    masters: Sequence[Master]
    crew: Crew
    acts: list[ActLine]
    began: float = field(default_factory=time.monotonic)
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=EVENTS))
    overheard: deque[str] = field(default_factory=deque)  # what the library logged, not yet told
    status: LockStatus | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def votes(self) -> list[str]:
        """For each master who holds the lock there, as it tells an outsider, or that it is dead."""
        told = []
        views = self.status.masters if self.status is not None else ()
        for i, master in enumerate(self.masters):
            if not master.running:
                told.append("killed")
            elif i >= len(views):
                told.append("up")
            else:
                told.append(self._vote(views[i].holder, views[i].remaining))
        return told

    def _vote(self, holder: str | None, remaining: float | None) -> str:
        if holder is None:
            return "up, free"
        # <client> is host/pid/thread
        pid = holder.split("/")[1] if holder.count("/") >= 2 else holder
        name = next((f"worker {m.number}" for m in self.crew if str(m.pid) == pid), f"pid {pid}")
        return f"up, {name}" + (f" for {remaining:.1f} s" if remaining is not None else "")


class Observer(logging.Handler):
    """Asks the masters who holds the lock, a few times a second, with a client of its own.

    What the library logs meanwhile goes to the board: on the terminal it would tear the dashboard.
    """

    def __init__(self, board: Board, urls: Sequence[str], ttl: float) -> None:
        super().__init__(logging.WARNING)
        self._board = board
        self._client = rlock.Client(urls, ttl, max_ttl=ttl)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """From any thread; the acts tell it."""
        self._board.overheard.append(f"rlock: {record.getMessage()}")

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
                self._board.status = self._client.status(LOCK)
            except rlock.RLockError:
                self._board.status = None
