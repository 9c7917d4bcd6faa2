"""The contending processes, seen from their parent: started, given orders, killed, ended."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .history import History
from .journal import now_ns
from .worker import Load

#: For a section to end and its lock to be released.
END_S = 4.0


class WorkerError(Exception):
    """A worker ended by itself, or does not do its order."""


class WorkerProcess:
    """One worker."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.killed_at: int | None = None
        #: The number of the last order.
        self.ordered = 0
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rlock.testing.contention.worker", name, str(folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(environment),
                # A terminal's Ctrl-C goes to its process group: the parent ends the workers in its own way.
                start_new_session=True,
            )
        self.pid = self._process.pid

    def order(self, load: Load | None) -> None:
        """Give it another load; None: do nothing."""
        self.ordered += 1
        line = {"order": self.ordered, "load": None if load is None else asdict(load)}
        if self._process.stdin is not None:
            try:
                self._process.stdin.write(json.dumps(line).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                self.check()

    def check(self) -> None:
        """Raise WorkerError if it has ended by itself."""
        code = self._process.poll()
        if code is not None and self.killed_at is None:
            log = self._log.read_text(errors="replace").strip().splitlines()
            raise WorkerError(f"{self.name} ended with status {code}: {log[-1] if log else 'no message'}")

    def kill(self) -> int:
        """SIGKILL; the instant before it."""
        self.killed_at = now_ns()
        self._process.kill()
        self._process.wait()
        return self.killed_at

    def close(self) -> None:
        """End its stdin: it releases its lock and ends."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # closing flushes, and the worker may be dead
                self._process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait for its end; SIGKILL after so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()
        self._process.wait()


class WorkerProcesses:
    """Several workers, and the history of their attempts. ``environment`` has the masters."""

    def __init__(self, count: int, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.history = History()
        self.workers: list[WorkerProcess] = []
        try:
            for number in range(1, count + 1):
                self.workers.append(WorkerProcess(f"worker-{number}", folder, environment))
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> list[WorkerProcess]:
        """Workers that were not killed."""
        return [worker for worker in self.workers if worker.killed_at is None]

    def is_idle(self, worker: WorkerProcess) -> bool:
        """Whether a worker has started, and has ended its last order."""
        return self.history.idle.get(worker.name) == worker.ordered

    @property
    def idle(self) -> bool:
        """Whether all living workers have ended their last orders."""
        return all(self.is_idle(worker) for worker in self.alive)

    def inside(self, worker: WorkerProcess) -> bool:
        """Whether a worker holds a lock, as far as the journals were read."""
        mine = [attempt for attempt in self.history.open.values() if attempt.process == worker.name]
        return any(attempt.held and attempt.left_at is None for attempt in mine)

    def read(self) -> None:
        """Read the journals. Raises WorkerError if a worker has ended by itself."""
        self.history.take(self.folder)
        for worker in self.workers:
            worker.check()

    def wait(self, seconds: float) -> None:
        """Wait until all are idle. Raises WorkerError after so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.idle:
            if time.monotonic() > deadline:
                raise WorkerError(f"the workers do not end their work within {seconds:g} s")
            time.sleep(0.05)
            self.read()

    def end(self) -> None:
        """Leave no process behind. May be called twice."""
        for worker in self.workers:
            worker.close()
        until = time.monotonic() + END_S
        for worker in self.workers:
            worker.wait(max(0.0, until - time.monotonic()))
