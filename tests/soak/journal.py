"""The journals: what each process notes of its holds, on the one clock that all processes share.

A line is a JSON list: what happened, when (ns of CLOCK_BOOTTIME, by which leases go), and to which attempt.
Each is one write to a file of the process's own, so a SIGKILL loses at most the last line.

ready   the process works
ask     attempt, name, fair, timeout (-1: for ever, 0: not blocking): before ``acquire`` is called
got     attempt, valid_until, token, ttl, owner: after it returned True
look    attempt, valid_until: the validity at that moment, 0 when there is none
nest    attempt, token, depth: after a nested ``acquire``
leave   attempt, valid_until: before ``release`` is called
left    attempt, how: after it returned, or raised
done    attempt, how: nothing of it is held any more
end     the process ends by itself

A validity is ``t + remaining()`` with t read before the call: never later than what the client believes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: The clock of rlock.clock: a stopped or suspended process finds its lease over.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SECOND = 1_000_000_000


def now_ns() -> int:
    """This instant, as everybody on this machine sees it."""
    return time.clock_gettime_ns(CLOCK)


class Journal:
    """One process's notes. Any thread may write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what: str, at: int, *more: Any) -> None:
        """One line, with one system call: whole or not at all."""
        os.write(self._file, (json.dumps([what, at, *more], separators=(",", ":")) + "\n").encode())


class Look(NamedTuple):
    """The validity of a hold as it was seen at an instant."""

    at: int
    valid_until: int

    @property
    def valid(self) -> bool:
        """Whether there was any."""
        return self.valid_until > self.at


@dataclass
class Attempt:
    """One outermost ``acquire``, and the hold that came of it."""

    worker: str
    number: int
    name: str
    asked_at: int
    fair: bool = False
    timeout: float = -1.0
    got_at: int | None = None
    token: int = 0
    ttl: int = 0
    owner: str = ""
    looks: list[Look] = field(default_factory=list)
    nested: list[tuple[int, int]] = field(default_factory=list)
    leave_at: int | None = None
    left_at: int | None = None
    how: str = ""
    done_at: int | None = None

    @property
    def id(self) -> str:
        """Its name in all journals."""
        return f"{self.worker}#{self.number}"

    @property
    def granted_after(self) -> int:
        """An instant before the first byte of the round that won it was sent."""
        valid_until = self.looks[0].valid_until if self.looks else 0
        return max(self.asked_at, valid_until - self.ttl)

    @property
    def valid_to(self) -> int:
        """Until when the hold counts: the release, or the end of the validity that its holder knew of.

        So a holder that was killed or stopped is judged by the last that it saw.
        """
        if self.got_at is None:
            raise ValueError("not a hold")
        until = last = self.got_at
        for look in self.looks:
            if not look.valid:
                # Over before its time: nobody knows since when, but at the last look it was valid.
                return until if look.at >= until else last
            until, last = look.valid_until, look.at + 1
        return until if self.leave_at is None else min(until, self.leave_at)

    @property
    def lost(self) -> bool:
        """Whether it ended without a release."""
        return self.got_at is not None and any(not look.valid for look in self.looks)

    def __str__(self) -> str:
        text = f"{self.id} of {self.name!r} ({'fair' if self.fair else 'default'}"
        text += f", timeout {self.timeout:g}): asked {stamp(self.asked_at)}"
        if self.got_at is not None:
            text += f", sent after {stamp(self.granted_after)}, got {stamp(self.got_at)}"
            text += f", token {self.token}, valid to {stamp(self.valid_to)}, {len(self.looks)} looks"
        for what, at in (("leave", self.leave_at), ("left", self.left_at), ("done", self.done_at)):
            text += f", {what} {stamp(at)}" if at is not None else ""
        return text + (f" ({self.how})" if self.how else "") + (f", owner {self.owner}" if self.owner else "")


def stamp(at: int) -> str:
    """An instant for people: seconds, to the microsecond."""
    return f"{at / SECOND:.6f}"


class Records:
    """What all journals of a run say. `take` may be called again: it reads on where it was."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        #: What was noted before this instant has been read, whoever noted it.
        self.horizon = 1 << 63
        self.ready: dict[str, int] = {}
        self.ended: set[str] = set()
        self._open: dict[tuple[str, int], Attempt] = {}
        self._read: dict[str, int] = {}

    def take(self, folder: Path) -> Records:
        """Read what is new in the journals of a folder."""
        # Files are read one after another: a release that came after its file was read must not make an
        # overlap with the next hold, whose file is read later. The rest is for a line on its way.
        self.horizon = now_ns() - SECOND // 5
        for path in sorted(folder.glob("*.journal")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.name, 0))
                # What a killed process left of a line, or has not finished yet, stays unread.
                text, newline, _ = file.read().rpartition(b"\n")
            self._read[path.name] = self._read.get(path.name, 0) + len(text) + len(newline)
            self.add(path.stem, (json.loads(line) for line in text.splitlines()))
        return self

    def add(self, worker: str, lines: Iterable[list[Any]]) -> Records:
        """Take lines of one process, in their order."""
        for what, at, *more in lines:
            if what == "ready":
                self.ready[worker] = at
            elif what == "end":
                self.ended.add(worker)
            elif what == "ask":
                number, name, fair, timeout = more
                attempt = Attempt(worker, number, name, at, fair, timeout)
                self._open[worker, number] = attempt
                self.attempts.append(attempt)
            else:
                self._note(self._open[worker, more[0]], what, at, *more[1:])
        return self

    @property
    def holds(self) -> list[Attempt]:
        """Attempts that got the lock, as far as all files have been read."""
        return [
            attempt
            for attempt in self.attempts
            if attempt.got_at is not None and attempt.got_at <= self.horizon
        ]

    def _note(self, attempt: Attempt, what: str, at: int, *more: Any) -> None:
        if what == "got":
            valid_until, attempt.token, attempt.ttl, attempt.owner = more
            attempt.got_at = at
            attempt.looks.append(Look(at, valid_until))
        elif what == "look":
            attempt.looks.append(Look(at, *more))
        elif what == "nest":
            token, depth = more
            attempt.nested.append((token, depth))
        elif what == "leave":
            if attempt.got_at is not None and attempt.leave_at is None:
                attempt.leave_at = at
                attempt.looks.append(Look(at, *more))
        elif what == "left":
            attempt.left_at, (attempt.how,) = at, more
        elif what == "done":
            attempt.done_at, attempt.how = at, attempt.how or more[0]
            self._open.pop((attempt.worker, attempt.number), None)
