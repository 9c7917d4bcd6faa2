"""The field of the nemesis: masters, worker processes, and the notes on the faults that were done to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rlock.rules import scripts
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns
from rlock.testing.contention.order import Harm
from rlock.testing.local.spawn import spawn

from .fleet import Fleet
from .worker import Setup

ROOT = Path(__file__).resolve().parents[2]
#: A worker ends when its threads have had the lock that they waited for.
END_S = 60.0


class Crew:
    """``setup(number, place)`` tells what the next worker is to do. Thread-safe.

    A worker that replaces a killed one takes its place, and with it its proxies.
    """

    def __init__(self, count: int, folder: Path, setup: Callable[[int, int], Setup]) -> None:
        self._folder, self._setup = folder, setup
        self._mutex = threading.Lock()
        self._started = 0
        self._alive: list[tuple[Setup, subprocess.Popen[bytes]]] = []
        #: Names of those that were killed, with the instant.
        self.killed: dict[str, int] = {}
        for place in range(count):
            self._hire(place)

    @property
    def count(self) -> int:
        return len(self._alive)

    def kill(self, dice: Random) -> str:
        with self._mutex:
            setup, process = self._alive.pop(dice.randrange(len(self._alive)))
            self.killed[setup.worker] = now_ns()
            process.kill()
            process.wait()
            self._hire(setup.place)
        return setup.worker

    def freeze(self, dice: Random, seconds: float, share: float = 0.0) -> str:
        """SIGSTOP one of them, or that share of all, and SIGCONT after so many seconds."""
        with self._mutex:
            chosen = [one for one in self._alive if dice.random() < share]
            if not share:
                chosen = [dice.choice(self._alive)]
            for _, process in chosen:
                process.send_signal(signal.SIGSTOP)
            timer = threading.Timer(seconds, self._wake, ([process for _, process in chosen],))
            timer.daemon = True
            timer.start()
        return f"{', '.join(setup.worker for setup, _ in chosen)} for {seconds:.2f} s"

    def interrupt(self, dice: Random) -> str:
        """SIGINT, but not before a worker has begun: in the middle of an import it would end it."""
        with self._mutex:
            setup, process = dice.choice(self._alive)
            with contextlib.suppress(OSError):
                if b'"idle"' in (self._folder / f"{setup.worker}.jsonl").read_bytes()[:4096]:
                    process.send_signal(signal.SIGINT)
        return setup.worker

    def wake(self) -> None:
        """SIGCONT to all."""
        with self._mutex:
            self._wake([process for _, process in self._alive])

    def end(self) -> list[str]:
        """Ask all to end; what was wrong with those that did not, or not well."""
        self.wake()
        wrong = []
        for _, process in self._alive:
            process.terminate()
        until = time.monotonic() + END_S
        for setup, process in self._alive:
            try:
                code = process.wait(max(0.1, until - time.monotonic()))
                if code:
                    wrong.append(f"{setup.worker} ended with {code}: see {setup.worker}.log")
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGUSR1)  # where it stands
                time.sleep(1.0)
                process.kill()
                process.wait()
                wrong.append(f"{setup.worker} did not end: see {setup.worker}.log")
        return wrong

    def abolish(self) -> None:
        """SIGKILL all that are left."""
        with self._mutex:
            for _, process in self._alive:
                process.kill()
                process.wait()
            self._alive.clear()

    def _hire(self, place: int) -> None:
        self._started += 1
        setup = self._setup(self._started, place)
        log = os.open(self._folder / f"{setup.worker}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            # It dies with this process, whatever becomes of this process.
            command = [sys.executable, "-m", "evidence.soak.worker", str(setup)]
            self._alive.append((setup, spawn(command, log, ROOT)))
        finally:
            os.close(log)

    def _wake(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)


@dataclass
class Field:
    """The things that faults act on, and the notes on faults."""

    fleet: Fleet
    crew: Crew
    names: Sequence[str]
    #: The scripts of the workers by their names. With a broken rule a script may have another hash.
    commands: Mapping[str, scripts.Script]
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)

    def note(self, fault: str, told: object) -> None:
        self.done[fault] += 1
        self.log.append(f"{stamp(now_ns())} {fault} {told}")

    def rest(self, seconds: float) -> None:
        self.over.wait(seconds)
