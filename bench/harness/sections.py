"""What contended sections say, computed from what the workers noted. No I/O.

An owner is one thread of one process. A turn of a contestant is contention from `began` on; what counts is
the window behind the lead-in, from `opened` to `closed`. Overlaps count all the time. Instants are
nanoseconds of CLOCK_MONOTONIC, which the processes of one machine share.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from bench.harness.figures import percentile
from rlock.testing.contention.checker import overlapping
from rlock.testing.contention.figures import jain


class Section(NamedTuple):
    """One critical section: whose, before acquire, after acquire, before release."""

    process: int
    thread: int
    asked: int
    entered: int
    left: int

    @property
    def owner(self) -> tuple[int, int]:
        return self.process, self.thread


@dataclass(frozen=True)
class Turn:
    """One turn of one contestant: who took part, when, and what it did and cost in the window."""

    processes: int
    threads: int
    began: int
    opened: int
    closed: int
    sections: Sequence[Section]
    #: Of acquires and releases that failed, by process.
    errors: Sequence[tuple[int, str]] = ()
    cpu_ns: int = 0
    requests: int = 0
    commands: int = 0
    scripts: int = 0


def sections_of(replies: Sequence[dict[str, Any]]) -> tuple[list[Section], list[tuple[int, str]]]:
    """The sections and the errors in the replies to ``contend``, of which each is one process."""
    sections = [
        Section(process, *noted) for process, reply in enumerate(replies) for noted in reply["sections"]
    ]
    errors = [(process, str(error)) for process, reply in enumerate(replies) for error in reply["errors"]]
    return sorted(sections, key=lambda section: section.entered), errors


def overlaps(sections: Iterable[Section]) -> int:
    """How many sections began while another one lasted."""
    return len(overlapping(sections, begin=attrgetter("entered"), end=attrgetter("left")))


def longest_wait(turn: Turn) -> int:
    """The longest wait that the window saw, in nanoseconds; one that it found unfinished counts to its end.

    Without the latter, who starves would be nobody's longest wait. A wait that failed is in no section: in a
    process that had errors a thread is taken to have waited since it last left, or since the beginning.
    """
    longest = 0
    last_left = {
        (process, thread): turn.began
        for process in {process for process, _ in turn.errors}
        for thread in range(turn.threads)
    }
    for section in turn.sections:
        if section.entered >= turn.opened:  # one that asked later waits for less than nothing
            longest = max(longest, min(section.entered, turn.closed) - section.asked)
        if section.owner in last_left:
            last_left[section.owner] = max(last_left[section.owner], section.left)
    return max([longest, *(turn.closed - left for left in last_left.values())])


@dataclass
class Tally:
    """What one contestant did, over all its turns."""

    seconds: float = 0.0
    sections: int = 0
    overlaps: int = 0
    errors: int = 0
    first_error: str = ""
    longest_wait_ns: int = 0
    cpu_ns: int = 0
    requests: int = 0
    commands: int = 0
    scripts: int = 0
    #: Sections a second of each turn, and those whose predecessor was another owner's.
    rates: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    #: Nanoseconds, by turn.
    hand_offs: list[list[int]] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)
    starved: list[int] = field(default_factory=list)

    def add(self, turn: Turn) -> None:
        """Take in a turn."""
        seconds = (turn.closed - turn.opened) / 1e9
        shares = Counter({(p, t): 0 for p in range(turn.processes) for t in range(turn.threads)})
        hand_offs: list[int] = []
        changes = 0
        last: Section | None = None
        for section in sorted(turn.sections, key=lambda section: section.entered):
            if turn.opened <= section.entered < turn.closed:
                shares[section.owner] += 1
                changes += last is not None and last.owner != section.owner
                # One that asked later did not wait for this release; one that overlaps was handed nothing;
                # one of the same process may have been told without a server.
                waited = last is not None and section.asked <= last.left <= section.entered
                if waited and last is not None and last.process != section.process:
                    hand_offs.append(section.entered - last.left)
            if last is None or section.left > last.left:
                last = section
        counts = list(shares.values())
        self.seconds += seconds
        self.sections += sum(counts)
        self.overlaps += overlaps(turn.sections)
        self.errors += len(turn.errors)
        self.first_error = self.first_error or next((text for _, text in turn.errors), "")
        self.longest_wait_ns = max(self.longest_wait_ns, longest_wait(turn))
        self.cpu_ns += turn.cpu_ns
        self.requests += turn.requests
        self.commands += turn.commands
        self.scripts += turn.scripts
        self.rates.append(sum(counts) / seconds)
        self.changes.append(changes / seconds)
        self.hand_offs.append(hand_offs)
        self.fairness.append(jain(counts) or 0.0)
        self.starved.append(counts.count(0))

    def figures(self) -> dict[str, float]:
        """The figures of its row. What needs a section, or a hand-off, is left out where there was none."""
        told: dict[str, float] = {
            "sections_per_s": statistics.fmean(self.rates),
            "changes_per_s": statistics.fmean(self.changes),
            "changes_per_s_low": min(self.changes),
            "changes_per_s_high": max(self.changes),
            "jain": statistics.fmean(self.fairness),
            "starved": statistics.fmean(self.starved),
            "longest_wait_ms": self.longest_wait_ns / 1e6,
            "overlaps": self.overlaps,
            "errors": self.errors,
            "window_s": self.seconds,
            "turns": len(self.rates),
        }
        if self.sections:
            told["cpu_ms_per_section"] = self.cpu_ns / 1e6 / self.sections
            told["requests_per_section"] = self.requests / self.sections
            told["commands_per_section"] = self.commands / self.sections
            told["scripts_per_section"] = self.scripts / self.sections
        every = [ns for turn in self.hand_offs for ns in turn]
        if every:
            medians = [statistics.median(turn) for turn in self.hand_offs if turn]
            told["hand_off_p50_us"] = statistics.median(every) / 1e3
            told["hand_off_p50_low_us"] = min(medians) / 1e3
            told["hand_off_p50_high_us"] = max(medians) / 1e3
            told["hand_off_p99_us"] = percentile(every, 99) / 1e3
            told["hand_offs"] = len(every)
        return told
