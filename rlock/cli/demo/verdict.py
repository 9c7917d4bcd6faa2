"""The verdict: one sentence out of the journals, the counters and the marks of the phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlock.testing.contention.checker import Finding, judge_safety, overlaps
from rlock.testing.contention.counter import Count
from rlock.testing.contention.figures import completed, rate
from rlock.testing.contention.history import Attempt, History
from rlock.testing.contention.journal import SECOND

from .phases import (
    HANDOFFS,
    MASTERS_KILLED,
    NEXT_OWNER_SLACK_S,
    Kill,
    Marks,
    longest_pause,
    next_owner,
    spread_ms,
    wake_ups,
)

LEAST_HANDOFFS = HANDOFFS // 3  # fewer hand-offs than this say nothing about a median


@dataclass(frozen=True)
class Verdict:
    """The last line, and the problems that it is about."""

    sentence: str
    problems: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether the run showed everything that it was to show."""
        return not self.problems


@dataclass(frozen=True)
class Evidence:
    """Everything that the verdict is made of."""

    history: History
    unlocked: Count  # the counter of the control
    counter: Count
    marks: Marks
    workers: Sequence[str]
    masters: int
    ttl: float
    interruption: str = ""  # why the phases did not come to their end


def judge(evidence: Evidence) -> Verdict:
    """The verdict."""
    history = evidence.history
    errors = [f"{process}: {text}" for process, text in dict.fromkeys(history.errors)]
    if evidence.interruption:
        # The workers were in the middle of their work, so only violations that no later line excuses count.
        problems = [*_unsafe(history), *errors]
        if problems:
            return _violation([*problems, evidence.interruption])
        return Verdict(f"NOTHING PROVEN: {evidence.interruption}", [evidence.interruption])
    if evidence.unlocked.lost == 0:
        # A check that cannot fail proves nothing: a lock that excludes nobody would pass it.
        why = f"{evidence.unlocked.acknowledged} updates without the lock, and none was lost"
        return Verdict(f"NOTHING PROVEN: {why}", [why])
    killed = _killed(evidence)
    problems = [*_unsafe(history), *_broken(evidence), *errors] or _unshown(evidence, killed)
    if problems or killed is None:
        return _violation(problems)
    return Verdict(_sentence(evidence, *killed))


#: The kill, the hold that it ended, and the next one.
Killed = tuple[Kill, Attempt, Attempt]


def _killed(evidence: Evidence) -> Killed | None:
    holds, kill = evidence.history.holds, evidence.marks.kill
    held = next((hold for hold in holds if _was_killed(hold, kill)), None)
    owner = next_owner(holds, kill) if kill else None
    return None if kill is None or held is None or owner is None else (kill, held, owner)


def _violation(problems: Sequence[str]) -> Verdict:
    more = f" ({len(problems)} problems in all)" if len(problems) > 1 else ""
    return Verdict(f"VIOLATION: {problems[0]}{more}", problems)


def _unsafe(history: History) -> list[str]:
    """The findings of the checker, for each rule the first one."""
    found: dict[str, list[Finding]] = {}
    for finding in judge_safety(history):
        found.setdefault(finding.check, []).append(finding)
    return [
        f"{check}, {len(findings):,} times, the first: {findings[0].told.splitlines()[0]} "
        f"({', '.join(findings[0].about)})"
        for check, findings in found.items()
    ]


def _broken(evidence: Evidence) -> list[str]:
    """Holds and updates that did not end well."""
    holds, kill, count = evidence.history.holds, evidence.marks.kill, evidence.counter
    found = []
    lost = {hold.process for hold in holds if hold.lost}
    if lost:
        found.append(f"a lease ended before its section: of {_names(lost)} (did the machine stand still?)")
    unended = {h.process for h in holds if h.done_at is None and not _was_killed(h, kill)}
    if unended:
        found.append(f"a section never ended: of {_names(unended)}")
    if count.lost:
        found.append(f"{count.lost:,} of {count.acknowledged:,} updates were lost")
    done = len(completed(holds))
    if count.acknowledged != done and not lost:
        found.append(f"{done:,} sections, but {count.acknowledged:,} updates of the counter")
    return found


def _unshown(evidence: Evidence, killed: Killed | None) -> list[str]:
    """Claims of the sentence that this run does not bear out."""
    holds, marks, ttl = evidence.history.holds, evidence.marks, evidence.ttl
    found = []
    idle = set(evidence.workers) - {hold.process for hold in completed(holds)}
    if idle:
        found.append(f"{_names(idle)} never completed a section")
    if rate(holds, *marks.degraded) == 0:
        found.append(f"no section was completed after {MASTERS_KILLED} masters were killed")
    measured = len(wake_ups(holds, marks.handoffs))
    if measured < LEAST_HANDOFFS:
        found.append(f"only {measured} hand-offs could be measured")
    if killed is None:
        return [*found, "nobody got the lock after its holder was killed"]
    kill, held, owner = killed
    if held.valid_to < held.grant.at + 1.1 * ttl * SECOND:
        found.append(f"the holder's lease (ttl {ttl:g} s) was not renewed while it held")
    took_s = (owner.grant.at - kill.at) / SECOND
    if took_s > ttl + NEXT_OWNER_SLACK_S:
        found.append(
            f"the next owner came {took_s:.2f} s after the kill: over ttl + {NEXT_OWNER_SLACK_S:g} s"
        )
    return found


def _sentence(evidence: Evidence, kill: Kill, held: Attempt, owner: Attempt) -> str:
    holds, marks, unlocked = evidence.history.holds, evidence.marks, evidence.unlocked
    done = completed(holds)
    return (
        f"Proven here: {len(done):,} critical sections of {len(evidence.workers)} processes on "
        f"{evidence.masters} masters, {len(overlaps(holds))} overlaps, {evidence.counter.lost} lost updates "
        f"(without the lock: {unlocked.lost:,} of {unlocked.acknowledged:,} lost); "
        f"{sum(len(hold.nested) for hold in done):,} nested acquires; "
        f"{MASTERS_KILLED} masters killed: {rate(done, *marks.contend):,.0f} sections/s before, "
        f"{rate(done, *marks.degraded):,.0f}/s after, "
        f"longest pause {longest_pause(done, marks.degraded) * 1000:,.0f} ms; "
        f"holder killed -9 after {(kill.at - held.grant.at) / SECOND:.1f} s: next owner "
        f"after {(owner.grant.at - kill.at) / SECOND:.2f} s (ttl {evidence.ttl:g} s); "
        f"wake-up {spread_ms(wake_ups(holds, marks.handoffs))}."
    )


def _was_killed(hold: Attempt, kill: Kill | None) -> bool:
    return kill is not None and hold.process == kill.worker and hold.done_at is None


def _names(processes: set[str]) -> str:
    return ", ".join(sorted(processes))
