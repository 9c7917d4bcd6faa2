"""The checker: what the journals and the ledger prove, and what they refute. Pure functions, no clock."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .journal import Section
from .ledger import State
from .worker import HANDOFF

#: A waiter that asked later than this before the release may not have been parked yet: not a wake-up.
PARKED_NS = 10_000_000


def completed(sections: Iterable[Section]) -> list[Section]:
    """Those that rewrote the ledger to the end."""
    return [section for section in sections if section.left_at is not None]


def overlaps(sections: Iterable[Section]) -> list[tuple[Section, Section]]:
    """Pairs of sections that were inside at the same time.

    A worker that was killed inside counts as inside until the end of the validity that it knew of.
    """
    found = []
    last: Section | None = None  # of those so far, the one that ends last
    for section in sorted(sections, key=lambda section: section.entered_at):
        if last is not None and section.entered_at < last.ended_at:
            found.append((last, section))
        if last is None or section.ended_at > last.ended_at:
            last = section
    return found


def outlived(sections: Iterable[Section]) -> list[Section]:
    """Sections that were left after their lease had ended: a pause no lease can exclude others from."""
    return [
        section
        for section in completed(sections)
        if section.valid_until is not None and (section.left_at or 0) >= section.valid_until
    ]


def lost_updates(sections: Iterable[Section], final: State | None) -> int:
    """How many completed sections left no trace in the ledger.

    Walks back from the ledger's last entry, each entry to the one that it was built on; what is not on
    that path was overwritten. From a torn ledger, the walk begins at the section that was left last.
    """
    done = {section.chain: section for section in completed(sections)}
    if final is not None:
        chain = final.chain
    else:
        chain = max(done.values(), key=lambda section: section.left_at or 0).chain if done else ""
    survived = 0
    while chain in done:
        chain = done.pop(chain).parent
        survived += 1
    return len(completed(sections)) - survived


def torn_reads(sections: Iterable[Section]) -> list[Section]:
    """Sections that found the ledger half written."""
    return [section for section in sections if section.found_torn]


@dataclass(frozen=True)
class Kill:
    """A worker that was killed inside, at ``at``."""

    worker: int
    at: int


def violations(sections: Sequence[Section], final: State | None, kill: Kill | None = None) -> list[str]:
    """Everything in the record of the lock that must not be, one sentence for each kind; empty: it held."""
    unended = [
        section
        for section in sections
        if section.left_at is None
        and section.thrown_out_at is None
        and not (kill is not None and section.worker == kill.worker and section.entered_at < kill.at)
    ]
    found = [
        *overlap_violations(sections),
        *_counted(outlived(sections), "left after the lease had ended (did the machine stand still?)"),
        *_counted(unended, "entered and never left"),
        *_torn(sections, kill),
    ]
    done = completed(sections)
    lost = lost_updates(sections, final)
    if lost:
        found.append(f"{lost:,} of {len(done):,} updates were lost")
    if final is None:
        return [*found, "the ledger is torn"]
    if final.count != len(done):
        found.append(f"the ledger counts {final.count:,} sections, the workers completed {len(done):,}")
    if final.tally != Counter(section.worker for section in done):
        found.append("the ledger's count for each worker is not what the workers completed")
    return found


def overlap_violations(sections: Iterable[Section]) -> list[str]:
    """The overlaps as a sentence."""
    found = overlaps(sections)
    if not found:
        return []
    before, after = found[0]
    early_ms = (before.ended_at - after.entered_at) / 1e6
    return [
        f"{_plural(len(found), 'overlap')}, the first: worker {after.worker} entered {early_ms:.3f} ms "
        f"before worker {before.worker}'s section ended"
    ]


def _counted(sections: Sequence[Section], what: str) -> list[str]:
    workers = ", ".join(str(worker) for worker in sorted({section.worker for section in sections}))
    return [f"{_plural(len(sections), 'section')} {what}: of worker {workers}"] if sections else []


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _torn(sections: Sequence[Section], kill: Kill | None) -> list[str]:
    """One torn read is owed to the kill in the middle of a rewrite: that of the very next owner."""
    owed = next_owner(sections, kill) if kill is not None else None
    found = _counted([s for s in torn_reads(sections) if s is not owed], "found the ledger torn")
    if owed is not None and owed.left_at is not None and not owed.found_torn:
        # The kill was to leave it torn; whole, it was somebody else who wrote in between.
        found.append("the ledger that the killed worker left half written was written by somebody else")
    return found


def next_owner(sections: Iterable[Section], kill: Kill) -> Section | None:
    """The first section that was entered after the kill."""
    after = [s for s in sections if s.entered_at > kill.at and s.worker != kill.worker]
    return min(after, key=lambda section: section.entered_at, default=None)


def wake_ups(sections: Iterable[Section]) -> list[float]:
    """Milliseconds from a release to the return of the other worker's acquire, for each hand-off."""
    held = sorted((s for s in sections if s.phase == HANDOFF), key=lambda section: section.entered_at)
    return [
        (after.entered_at - before.left_at) / 1e6
        for before, after in itertools.pairwise(held)
        if before.left_at is not None
        and after.worker != before.worker
        and after.asked_at < before.left_at - PARKED_NS
    ]


def rate(sections: Iterable[Section], begin_at: int, end_at: int) -> float:
    """Completed sections per second in a span of time."""
    inside = [s for s in completed(sections) if begin_at <= (s.left_at or 0) < end_at]
    return len(inside) / ((end_at - begin_at) / 1e9) if end_at > begin_at else 0.0


def longest_gap(sections: Iterable[Section], begin_at: int, end_at: int) -> float:
    """The longest time in a span, in seconds, in which nobody entered."""
    entered = sorted(s.entered_at for s in sections if begin_at <= s.entered_at < end_at)
    instants = [begin_at, *entered, end_at]
    return max(b - a for a, b in itertools.pairwise(instants)) / 1e9


def median(values: Sequence[float]) -> float:
    """Of a list that is not empty."""
    return statistics.median(values)
