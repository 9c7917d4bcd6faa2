"""Figures of contention, computed from the critical sections that the workers noted. No I/O.

An owner is one thread of one process. A turn of a contestant is contention from `began` on. Counted is the
window from `opened` to `closed`; overlaps are counted all the time. Instants are nanoseconds of
CLOCK_MONOTONIC, which the processes of one machine share.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from bench.harness.figures import percentile
from bench.harness.results import Row
from rlock.testing.contention.checker import overlapping
from rlock.testing.contention.figures import jain


class Section(NamedTuple):
    """One critical section: whose, before and after acquire, before and after release (0: it failed)."""

    process: int
    thread: int
    asked: int
    entered: int
    left: int
    ended: int = 0
    shared: bool = False  # a reader's


@dataclass(frozen=True)
class Turn:
    """One turn of one contestant: its processes, its instants, its sections, and its cost in the window."""

    processes: int
    threads: int
    began: int
    opened: int
    closed: int
    sections: Sequence[Section]
    #: Acquires and releases that failed, by process.
    errors: Sequence[tuple[int, str]] = ()
    #: How long it went on after the window.
    drain_s: float = 0.0
    cpu_ns: int = 0
    requests: int = 0
    scripts: int = 0


def sections_of(replies: Sequence[dict[str, Any]]) -> tuple[list[Section], list[tuple[int, str]]]:
    """The sections and the errors in the replies to ``loop``, of which each is one process."""
    sections = [
        Section(process, *noted) for process, reply in enumerate(replies) for noted in reply["sections"]
    ]
    errors = [(process, str(error)) for process, reply in enumerate(replies) for error in reply["errors"]]
    return sorted(sections, key=lambda section: section.entered), errors


def overlaps(sections: Iterable[Section]) -> int:
    """How many sections began while another one lasted that excludes them."""
    entered, left, shared = map(attrgetter, ("entered", "left", "shared"))
    return len(overlapping(sections, begin=entered, end=left, shared=shared))


def round_of(turn: Turn) -> dict[str, float]:
    """The figures of one turn, without those for which it has no section or no hand-off."""
    seconds = (turn.closed - turn.opened) / 1e9
    shares = Counter({(p, t): 0 for p in range(turn.processes) for t in range(turn.threads)})
    hand_offs: list[int] = []
    changes = 0
    last: Section | None = None
    for section in sorted(turn.sections, key=lambda section: section.entered):
        if last is not None and turn.opened <= section.entered < turn.closed:
            changes += last[:2] != section[:2]
            # A section that asked later did not wait for this release; one that overlaps was handed nothing.
            # Within one process the hand-off needs no master.
            waited = section.asked <= last.left <= section.entered
            if waited and last.process != section.process:
                hand_offs.append(section.entered - last.left)
        if turn.opened <= section.entered < turn.closed:
            shares[section[:2]] += 1
        if last is None or section.left > last.left:
            last = section
    counts = list(shares.values())
    sections = sum(counts)
    figures: dict[str, float] = {
        "sections_per_s": sections / seconds,
        "changes_per_s": changes / seconds,
        "jain": jain(counts) or 0.0,
        "starved": counts.count(0),
        "overlaps": overlaps(turn.sections),
        "errors": len(turn.errors),
    }
    if sections:
        figures["cpu_ms_per_section"] = turn.cpu_ns / 1e6 / sections
        figures["requests_per_section"] = turn.requests / sections
        figures["scripts_per_section"] = turn.scripts / sections
    if len(kinds := {section.shared for section in turn.sections}) > 1:
        figures["readers"] = sum(section.shared for section in turn.sections) / len(turn.sections)
        waits = [section.entered - section.asked for section in turn.sections if not section.shared]
        figures["writer_p99_ms"], figures["writer_wait_ms"] = percentile(waits, 99) / 1e6, max(waits) / 1e6
    if hand_offs and len(kinds) == 1:
        figures["hand_off_p50_us"] = statistics.median(hand_offs) / 1e3
        figures["hand_off_p99_us"] = percentile(hand_offs, 99) / 1e3
    return figures


#: Figures of which the worst turn counts: a median would hide a single event that must not happen.
WORST = ("starved", "writer_wait_ms")
#: Figures that count events of all turns.
SUMS = ("overlaps", "errors")


def row_of(turns: Sequence[Turn]) -> Row:
    rounds = [round_of(turn) for turn in turns]
    names = dict.fromkeys(name for one in rounds for name in one)
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    row = Row.of_rounds({name: found for name, found in values.items() if name not in (*WORST, *SUMS)})
    row.figures |= {name: max(values[name]) for name in WORST if name in values}
    row.figures |= {name: sum(values[name]) for name in SUMS if name in values}
    if errors := [text for turn in turns for _, text in turn.errors]:
        row.error = f"{errors[0]} ({len(errors)} times)"
    return row
