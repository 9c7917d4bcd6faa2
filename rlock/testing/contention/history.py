"""The history of a run: the attempts that the journals of all processes tell of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .journal import SECOND, now_ns


class Grant(NamedTuple):
    """The return of an outermost ``acquire`` with the lock."""

    at: int
    #: An instant before the first byte of the winning round was sent.
    sent_after: int
    token: int
    owner: str


NO_GRANT = Grant(-1, -1, 0, "")


class Look(NamedTuple):
    """The validity of a hold as its holder saw it at an instant."""

    at: int
    valid_until: int
    #: When the answer that none is left was there.
    by: int = 0

    @property
    def valid(self) -> bool:
        """Whether any validity was left."""
        return self.valid_until > self.at


@dataclass
class Attempt:
    """One outermost ``acquire``, and the hold that it led to. Instants are nanoseconds."""

    process: str
    number: int
    thread: str
    lock: str
    asked_at: int
    timeout: float = -1.0
    shared: bool = False
    within: str = ""  # the attempt whose writer its owner held, when it asked for the reader
    grant: Grant = NO_GRANT
    #: Since when it had its place in the queue, if its journal says so.
    arrived_at: int | None = None
    looks: list[Look] = field(default_factory=list)
    #: Token and hold count of each nested acquire.
    nested: list[tuple[int, int]] = field(default_factory=list)
    left_at: int | None = None  # the call of the outermost release
    done_at: int | None = None
    outcome: str = ""

    @property
    def id(self) -> str:
        """Its name in all journals."""
        return f"{self.process}#{self.number}"

    @property
    def held(self) -> bool:
        """Whether it got the lock."""
        return self.grant is not NO_GRANT

    @property
    def contender(self) -> tuple[str, str]:
        """The thread that made it."""
        return self.process, self.thread

    @property
    def valid_to(self) -> int:
        """The end of the hold: its release, or the end of the validity that its holder knew of.

        A killed or stopped holder is judged by its last look.
        """
        until = last = self.grant.at
        if not self.looks:  # Redisson tells no validity
            return until if self.left_at is None else self.left_at
        for look in self.looks:
            if not look.valid:
                # Lost before its time, at an unknown instant: it was still valid at the last look.
                return until if look.at >= until else last
            until, last = look.valid_until, look.at + 1
        return until if self.left_at is None else min(until, self.left_at)

    @property
    def lost(self) -> bool:
        """Whether its validity ended before the release."""
        return any(not look.valid for look in self.looks)

    def __str__(self) -> str:
        text = f"{self.id} of {'shared ' * self.shared}{self.lock!r} (timeout {self.timeout:g}): "
        text += f"asked {stamp(self.asked_at)}"
        if self.held:
            text += f", sent after {stamp(self.grant.sent_after)}, got {stamp(self.grant.at)}, token "
            text += f"{self.grant.token}, valid to {stamp(self.valid_to)}, {len(self.looks)} looks"
        for what, at in (("left", self.left_at), ("done", self.done_at)):
            text += f", {what} {stamp(at)}" if at is not None else ""
        return f"{text} ({self.outcome or 'not done'})"


def stamp(at: int) -> str:
    """An instant for people: seconds, to the microsecond."""
    return f"{at / SECOND:.6f}"


class History:
    """The journals of one run. `take` reads on from its last position."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        #: Every journal has been read up to this instant.
        self.horizon = 1 << 63
        self.ended: set[str] = set()
        #: The last order that each process has ended.
        self.idle: dict[str, int] = {}
        #: Process, begin and end of each time in which a process did not run.
        self.stalls: list[tuple[str, int, int]] = []
        #: Process and text of each error.
        self.errors: list[tuple[str, str]] = []
        #: Attempts that are not done.
        self.open: dict[tuple[str, int], Attempt] = {}
        self._offsets: dict[str, int] = {}

    def take(self, folder: Path) -> History:
        """Read the new lines of all journals in a folder."""
        # Files are read one after another. Otherwise a hold in a later file would seem to overlap one whose
        # release was noted after its file was read. A fifth of a second covers lines on their way.
        self.horizon = now_ns() - SECOND // 5
        for path in sorted(folder.glob("*.jsonl")):
            offset = self._offsets.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(offset)
                # Half a line, of a killed or a writing process, stays unread.
                text, newline, _ = file.read().rpartition(b"\n")
            self._offsets[path.name] = offset + len(text) + len(newline)
            self.add(path.stem, (json.loads(line) for line in text.splitlines()))
        return self

    def add(self, process: str, lines: Iterable[dict[str, Any]]) -> History:
        """Take lines of one process, in their order."""
        for line in lines:
            event, at = line["event"], line["at"]
            if event == "end":
                self.ended.add(process)
            elif event == "idle":
                self.idle[process] = line["order"]
            elif event == "stalled":
                self.stalls.append((process, line["since"], at))
            else:
                self._note(process, line["attempt"], event, at, line)
        return self

    @property
    def holds(self) -> list[Attempt]:
        """Attempts that got the lock before the horizon, in the order of their grants."""
        held = [attempt for attempt in self.attempts if attempt.held and attempt.grant.at <= self.horizon]
        return sorted(held, key=lambda hold: hold.grant.at)

    def _note(self, process: str, number: int, event: str, at: int, line: dict[str, Any]) -> None:
        attempt = self.open.get((process, number))
        if event == "arrived":
            if attempt is not None:  # else Ctrl-C ended the attempt of a task that was about to arrive
                attempt.arrived_at = at
            return
        if attempt is None and event == "done":
            return  # Ctrl-C came before the first line of the attempt, or after its last one
        if attempt is None:
            attempt = Attempt(process, number, line["thread"], line["lock"], at, line.get("timeout", -1.0))
            attempt.shared = line.get("shared", False)
            attempt.within = f"{process}#{line['within']}" if line.get("within") else ""
            self.open[process, number] = attempt
            self.attempts.append(attempt)
        elif event == "acquired" and attempt.held:
            attempt.nested.append((line["token"], line["hold_count"]))
            return
        elif event == "acquired":
            # A lease is counted from the instant before its round was sent.
            sent_after = line.get("valid_until", at) - line.get("ttl", 0)
            token, owner = line.get("token", 0), line.get("owner", "")
            attempt.grant = Grant(at, max(attempt.asked_at, sent_after), token, owner)
        elif event == "release" and line.get("hold_count", 1) == 1 and attempt.left_at is None:
            attempt.left_at = at
        elif event == "done":
            attempt.done_at, attempt.outcome = at, line["outcome"]
            if line.get("error"):
                self.errors.append((process, line["error"]))
            del self.open[process, number]
        if "valid_until" in line:
            attempt.looks.append(Look(at, line["valid_until"], line.get("by", at)))
