"""What contention.py computes from the sections that its workers report. No I/O."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from contention_workers import Report, Section, Setup, Slice


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all have the same, 1/k where one of k has everything."""
    squares = len(shares) * sum(share * share for share in shares)
    return sum(shares) ** 2 / squares if squares else 0.0


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which ``part`` of all are; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def overlaps(sections: Iterable[Section]) -> int:
    """How many sections began while another one lasted."""
    count, last = 0, 0.0
    for section in sorted(sections, key=lambda section: section.entered):
        count += section.entered < last
        last = max(last, section.left)
    return count


@dataclass
class Figures:
    """One configuration, over all its slices."""

    setup: Setup
    seconds: float = 0.0
    sections: int = 0
    changes: int = 0  # sections whose predecessor was another worker's
    attempts: int = 0
    commands: int = 0
    cpu_s: float = 0.0
    overlaps: int = 0
    gave_up: int = 0
    longest_wait: float = 0.0
    hand_offs: list[float] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)

    def add(self, order: Slice, reports: Sequence[Report], commands: int) -> None:
        """Take in a slice."""
        everything = sorted(
            ((section, worker) for worker, report in enumerate(reports) for section in report.sections),
            key=lambda entry: entry[0].entered,
        )
        self.seconds += order.close - order.open
        self.commands += commands
        self.attempts += sum(report.attempts for report in reports)
        self.gave_up += sum(report.gave_up for report in reports)
        self.cpu_s += sum(report.cpu_s for report in reports)
        self.overlaps += overlaps(section for section, _ in everything)
        shares = [0] * len(reports)
        last: tuple[Section, int] | None = None
        for section, worker in everything:
            if section.entered >= order.open and section.asked < order.close:
                # A wait that the end of the slice found unfinished counts up to it: who starves would
                # otherwise be nobody's longest wait.
                self.longest_wait = max(self.longest_wait, min(section.entered, order.close) - section.asked)
            if order.open <= section.entered < order.close:
                shares[worker] += 1
                if last is not None and last[1] != worker:
                    self.changes += 1
                    if section.asked <= last[0].left:  # else it did not wait for this release
                        self.hand_offs.append(section.entered - last[0].left)
            last = section, worker
        self.sections += sum(shares)
        self.fairness.append(jain(shares))

    def per_section(self, amount: float) -> float:
        return amount / self.sections if self.sections else 0.0

    @property
    def rate(self) -> float:
        return self.sections / self.seconds if self.seconds else 0.0

    def summary(self) -> dict[str, Any]:
        """The figures under the names that they have in the JSON file and in the table."""
        return {
            "masters": self.setup.masters,
            "kind": self.setup.kind,
            "processes": self.setup.processes,
            "seconds": self.seconds,
            "sections": self.sections,
            "sections_per_s": self.rate,
            "changes_per_s": self.changes / self.seconds if self.seconds else 0.0,
            "attempts_per_section": self.per_section(self.attempts),
            "commands_per_section": self.per_section(self.commands),
            "commands_per_section_and_master": self.per_section(self.commands) / self.setup.masters,
            "cpu_ms_per_section": self.per_section(self.cpu_s * 1e3),
            "hand_offs": len(self.hand_offs),
            "hand_off_p50_ms": quantile(self.hand_offs, 0.5) * 1e3,
            "hand_off_p99_ms": quantile(self.hand_offs, 0.99) * 1e3,
            "jain": statistics.fmean(self.fairness) if self.fairness else 0.0,
            "longest_wait_ms": self.longest_wait * 1e3,
            "overlaps": self.overlaps,
            "gave_up": self.gave_up,
        }
