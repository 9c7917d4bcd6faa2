"""The crew: the worker processes, seen from the demonstration. Starts, orders, kills and ends them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from .journal import Reader, Section, now_ns
from .worker import IDLE, journal_path


class CrewError(Exception):
    """A worker process ended, or does not do what it was told."""


class Member:
    """One worker process and the reader of its journal."""

    def __init__(self, number: int, directory: Path, environment: Mapping[str, str]) -> None:
        self.number = number
        self.reader = Reader(number, journal_path(directory, number))
        self.killed_at: int | None = None
        self._errors = directory / f"worker-{number}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rlock.cli.demo.worker", str(number), str(directory)],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=dict(environment),
                # Not in the terminal's process group: Ctrl-C ends the demonstration, which ends us.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it was not killed by us."""
        return self.killed_at is None

    @property
    def ready(self) -> bool:
        """Whether it has confirmed that it does nothing."""
        return self.reader.mode == IDLE

    def order(self, mode: str) -> None:
        """Tell it what to do next."""
        stdin = self._process.stdin
        if self.alive and stdin is not None:
            try:
                stdin.write(mode.encode() + b"\n")
                stdin.flush()
            except BrokenPipeError:
                self.check()
                raise CrewError(f"worker {self.number} takes no orders") from None

    def check(self) -> None:
        """Raise if it has ended by itself."""
        code = self._process.poll()
        if self.alive and code is not None:
            told = self._errors.read_text(errors="replace").strip().splitlines()
            raise CrewError(
                f"worker {self.number} ended with status {code}: {told[-1] if told else 'no word'}"
            )

    def kill(self) -> int:
        """kill -9; the instant before it."""
        self.killed_at = now_ns()
        self._process.kill()
        self._process.wait()
        return self.killed_at

    def end(self) -> None:
        """End it, whatever it does. May be called twice."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            # Closing flushes: an order that was cut short by Ctrl-C meets a pipe without a reader.
            try:
                self._process.stdin.close()
            except OSError:
                pass


class Crew:
    """All workers."""

    def __init__(self, count: int, directory: Path, urls: list[str], ttl: float) -> None:
        environment = {
            **os.environ,
            "RLOCK_MASTERS": ",".join(urls),
            "RLOCK_TTL": f"{ttl:g}",
            "RLOCK_MAX_TTL": f"{ttl:g}",
        }
        self._members: list[Member] = []
        try:
            for number in range(1, count + 1):
                self._members.append(Member(number, directory, environment))
        except BaseException:
            self.end()
            raise

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Member:
        return self._members[index]

    def order(self, mode: str) -> None:
        """Tell all of them."""
        for member in self._members:
            member.order(mode)

    def read(self) -> None:
        """Take in what they wrote, and raise if one has ended by itself."""
        for member in self._members:
            member.reader.read()
            member.check()

    @property
    def ready(self) -> bool:
        """Whether all that live do nothing."""
        return all(member.ready for member in self._members if member.alive)

    @property
    def sections(self) -> list[Section]:
        """Every section of every worker, in the order in which they were entered."""
        every = [section for member in self._members for section in member.reader.sections]
        return sorted(every, key=lambda section: section.entered_at)

    @property
    def faults(self) -> list[str]:
        """What went wrong in them, in words; the same thing once, with how often."""
        told = Counter(fault for member in self._members for fault in member.reader.faults)
        return [f"{fault} ({n} times)" if n > 1 else fault for fault, n in told.items()]

    def inside(self) -> Member | None:
        """Who is in the section under the lock, as far as the journals were read."""
        found = [m for m in self._members if m.alive and m.reader.inside is not None]
        return max(found, key=lambda m: m.reader.sections[-1].entered_at, default=None)

    def end(self) -> None:
        """Leave no process behind. May be called twice."""
        for member in self._members:
            member.end()
