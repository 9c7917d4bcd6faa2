"""The journals of a contest between Java and Python for one lock, merged, and what they say.

A line is a JSON list: what, the instant, more. Instants are CLOCK_MONOTONIC in nanoseconds, which is what
``time.monotonic_ns()`` reads, and on Linux Java's ``System.nanoTime()``.

ask     before the lock is asked for
got     seen: the section has begun, and read that number
leave   the number was written back one higher; the next thing is the release
left    the release has returned
fault   the lock's error: it was not got, or not released
end     the worker ends by itself

A file is a worker; its name begins with the side that it stands for, ``java`` or ``python``.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

#: As few places as both sides can write without making the file longer.
DIGITS = 8


class Journal:
    """One Python worker's notes; Java's are written by peer.Contest."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what: str, *more: Any, at: int = 0) -> None:
        """One line, with one system call: whole or not at all."""
        line = [what, at or time.monotonic_ns(), *more]
        os.write(self._file, (json.dumps(line, separators=(",", ":")) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


@dataclass
class Section:
    """One stay in the critical section."""

    worker: str
    asked_at: int
    begin: int
    seen: int
    end: int | None = None  # None: it was killed in it

    @property
    def side(self) -> str:
        return side(self.worker)


def side(worker: str) -> str:
    """Whose worker it is."""
    return worker.partition("-")[0]


class Overlap(NamedTuple):
    """Two in the section at once: the second came before the first had left."""

    first: Section
    second: Section

    @property
    def ns(self) -> int:
        return (self.first.end or self.second.begin) - self.second.begin

    def __str__(self) -> str:
        return f"{self.second.worker} came {self.ns / 1e6:.3f} ms before {self.first.worker} had left"


@dataclass(frozen=True)
class Delays:
    """How long a number of hand-offs took, in seconds."""

    count: int
    median: float
    p99: float
    longest: float

    @staticmethod
    def of(ns: Sequence[int]) -> Delays:
        ranked = sorted(one / 1e9 for one in ns)
        if not ranked:
            return Delays(0, 0.0, 0.0, 0.0)
        p99 = ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]
        return Delays(len(ranked), statistics.median(ranked), p99, ranked[-1])


@dataclass
class Records:
    """What all journals of a contest say."""

    sections: list[Section] = field(default_factory=list)
    #: Who asked and had no answer when the journals end, and since when.
    pending: dict[str, int] = field(default_factory=dict)
    faults: list[tuple[str, int, str]] = field(default_factory=list)
    workers: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @staticmethod
    def read(folder: Path) -> Records:
        """The journals of a folder. What a killed process left of a line is not one."""
        records = Records()
        for path in sorted(folder.glob("*.journal")):
            text, _, _ = path.read_bytes().rpartition(b"\n")
            records.add(path.stem, (json.loads(line) for line in text.splitlines()))
        records.sections.sort(key=lambda section: section.begin)
        return records

    def add(self, worker: str, lines: Iterable[list[Any]]) -> None:
        """Take the lines of one worker, in their order."""
        self.workers.add(worker)
        asked_at, section = 0, None
        for what, at, *more in lines:
            if what == "ask":
                asked_at = at
                self.pending[worker] = at
            elif what == "got":
                section = Section(worker, asked_at, at, more[0])
                self.sections.append(section)
                self.pending.pop(worker, None)
            elif what == "leave" and section is not None:
                section.end = at
            elif what == "fault":
                self.faults.append((worker, at, more[0]))
                self.pending.pop(worker, None)
            elif what == "end":
                self.ended.add(worker)

    @property
    def killed(self) -> set[str]:
        """Workers whose journal stops in the middle."""
        return self.workers - self.ended

    def overlaps(self) -> list[Overlap]:
        """Each section that began while another was on. A killed worker's last one ends with its begin."""
        found = []
        last: Section | None = None  # of those so far, the one that lasts longest
        for section in self.sections:
            if last is not None and section.begin < _end(last):
                found.append(Overlap(last, section))
            if last is None or _end(section) > _end(last):
                last = section
        return found

    def lost_updates(self, written: int) -> int:
        """How many sections wrote over what another one wrote: the number counts those that did not."""
        return sum(section.end is not None for section in self.sections) - written

    def by_side(self) -> Counter[str]:
        """Sections of each side."""
        return Counter(section.side for section in self.sections)

    def by_worker(self) -> Counter[str]:
        """Sections of each worker; those that had none, too."""
        counted = Counter(dict.fromkeys(sorted(self.workers), 0))
        counted.update(section.worker for section in self.sections)
        return counted

    def hand_offs(self) -> dict[tuple[str, str], list[int]]:
        """For each direction: from the release to the next owner's begin, in ns, if that one was waiting.

        Changes of the owner only: a worker that gets it twice in a row is no hand-off.
        """
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for before, after in pairwise(self.sections):
            if before.worker == after.worker or before.end is None:
                continue
            if after.asked_at < before.end <= after.begin:
                found[before.side, after.side].append(after.begin - before.end)
        return found

    def changes(self) -> Counter[tuple[str, str]]:
        """Owner changes by direction, whether the next one was waiting or came later."""
        return Counter((a.side, b.side) for a, b in pairwise(self.sections) if a.worker != b.worker)

    def longest_waits(self, until: int) -> dict[str, float]:
        """Each worker's longest wait in seconds, one that had no end until then included."""
        found = dict.fromkeys(sorted(self.workers), 0.0)
        for section in self.sections:
            waited = (section.begin - section.asked_at) / 1e9
            found[section.worker] = max(found[section.worker], waited)
        for worker, asked_at in self.pending.items():
            found[worker] = max(found[worker], (until - asked_at) / 1e9)
        return found

    def longest_gap(self) -> float:
        """The longest time in seconds in which nobody had it."""
        gaps = [b.begin - _end(a) for a, b in pairwise(self.sections)]
        return max([0, *gaps]) / 1e9


def _end(section: Section) -> int:
    return section.begin if section.end is None else section.end
