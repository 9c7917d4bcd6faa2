"""The verdict: one sentence out of the journals, the ledgers and the marks. Nothing in it is a constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .acts import HANDOFFS, NEXT_OWNER_SLACK_S, Marks
from .checker import (
    Kill,
    completed,
    longest_gap,
    lost_updates,
    median,
    next_owner,
    overlap_violations,
    overlaps,
    rate,
    torn_reads,
    violations,
    wake_ups,
)
from .journal import Section
from .ledger import Ledger, State
from .worker import CONTROL, control_path, guarded_path

#: Fewer hand-offs than this say nothing about a median.
LEAST_HANDOFFS = HANDOFFS // 3


@dataclass(frozen=True)
class Verdict:
    """What the last line says, and why it is not the good one, if it is not."""

    sentence: str
    problems: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether everything that was to be shown was shown."""
        return not self.problems


@dataclass(frozen=True)
class Evidence:
    """All that the verdict is made of."""

    sections: Sequence[Section]
    control_ledger: State | None
    ledger: State | None
    marks: Marks
    faults: Sequence[str]
    workers: int
    masters: int
    masters_killed: int
    ttl: float
    interruption: str | None = None  # why the acts did not come to their end


def read_ledgers(directory: Path) -> tuple[State | None, State | None]:
    """What the two ledgers say in the end: without the lock, under it."""
    return Ledger(control_path(directory)).final(), Ledger(guarded_path(directory)).final()


def judge(evidence: Evidence) -> Verdict:
    """The verdict."""
    control = [section for section in evidence.sections if section.phase == CONTROL]
    guarded = [section for section in evidence.sections if section.phase != CONTROL]
    if evidence.interruption is not None:
        # The workers were in the middle of their work: only what no later line could excuse counts.
        problems = [*overlap_violations(guarded), *evidence.faults]
        if problems:
            return _violation([*problems, evidence.interruption])
        return Verdict(f"NOTHING PROVEN: {evidence.interruption}", [evidence.interruption])
    broken = lost_updates(control, evidence.control_ledger)
    if broken == 0:
        # A check that cannot fail is worth nothing: it would be passed by no lock at all.
        why = f"{len(completed(control))} sections without the lock, and no update was lost"
        return Verdict("NOTHING PROVEN: " + why, [why])
    problems = [
        *violations(guarded, evidence.ledger, evidence.marks.kill),
        *evidence.faults,
    ] or _unshown(evidence, guarded)
    if problems:
        return _violation(problems)
    return Verdict(_sentence(evidence, control, guarded, broken))


def _violation(problems: Sequence[str]) -> Verdict:
    more = f" ({len(problems)} problems in all)" if len(problems) > 1 else ""
    return Verdict(f"VIOLATION: {problems[0]}{more}", problems)


def _unshown(evidence: Evidence, guarded: Sequence[Section]) -> list[str]:
    """Claims of the sentence that this run does not bear out."""
    found = []
    marks, ttl = evidence.marks, evidence.ttl
    idle = set(range(1, evidence.workers + 1)) - {section.worker for section in completed(guarded)}
    if idle:
        found.append(f"worker {min(idle)} never completed a section")
    if rate(guarded, *marks.degraded) == 0:
        found.append(f"no section was completed after {evidence.masters_killed} masters were killed")
    if len(wake_ups(guarded)) < LEAST_HANDOFFS:
        found.append(f"only {len(wake_ups(guarded))} hand-offs could be measured")
    held = _killed(guarded, marks.kill)
    heir = next_owner(guarded, marks.kill) if marks.kill else None
    if marks.kill is None or held is None or heir is None:
        found.append("nobody got the lock after its holder was killed")
        return found
    if (held.valid_until or 0) < held.entered_at + 1.1 * ttl * 1e9:
        found.append(f"the holder's lease (ttl {ttl:g} s) was not renewed while it held")
    took_s = _seconds(marks.kill.at, heir.entered_at)
    if took_s > ttl + NEXT_OWNER_SLACK_S:
        found.append(
            f"the next owner came {took_s:.2f} s after the kill: over ttl + {NEXT_OWNER_SLACK_S:g} s"
        )
    return found


def _killed(guarded: Sequence[Section], kill: Kill | None) -> Section | None:
    return next((s for s in guarded if kill and s.worker == kill.worker and s.left_at is None), None)


def _sentence(evidence: Evidence, control: Sequence[Section], guarded: Sequence[Section], broken: int) -> str:
    marks, done = evidence.marks, completed(guarded)
    took = wake_ups(guarded)
    heir = next_owner(guarded, marks.kill) if marks.kill else None
    held = _killed(guarded, marks.kill)
    kill_at = marks.kill.at if marks.kill else 0
    # Not a promise of the lock: what the next owner can do because it is alone.
    repaired = ", which put the half-written file right" if heir and heir.found_torn else ""
    took_s = _seconds(kill_at, heir.entered_at if heir else 0)
    return (
        f"Proven here: {len(done):,} critical sections of {evidence.workers} processes on "
        f"{evidence.masters} masters, {len(overlaps(guarded))} overlaps, "
        f"{lost_updates(guarded, evidence.ledger)} lost updates "
        f"(without the lock: {broken:,} of {len(completed(control)):,} lost, "
        f"{len(torn_reads(control)):,} torn reads); "
        f"{sum(section.depth for section in done):,} nested acquires; "
        f"{evidence.masters_killed} masters killed: {rate(done, *marks.turns):,.0f} sections/s before, "
        f"{rate(done, *marks.degraded):,.0f}/s after, "
        f"longest pause {longest_gap(done, *marks.degraded) * 1000:,.0f} ms; "
        f"holder killed -9 after {_seconds(held.entered_at if held else 0, kill_at):.1f} s: next owner "
        f"after {took_s:.2f} s (ttl {evidence.ttl:g} s){repaired}; "
        f"wake-up median {median(took):.2f} ms, max {max(took):.2f} ms ({len(took)} hand-offs)."
    )


def _seconds(begin_at: int, end_at: int) -> float:
    return (end_at - begin_at) / 1e9
