"""Verdicts on the demands, honest about noise: an interval that straddles its bound decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from .figures import LEAST_ROUNDS


@dataclass(frozen=True)
class Verdict:
    """A demand on rlock, and the measurement that kept it, missed it, or leaves it undecided."""

    scenario: str
    text: str
    bound: float
    at_most: bool = True
    unit: str = "x"
    #: A count of events that must never happen: one is enough to miss it, and no interval is needed.
    counted: bool = False
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0


class Outcome(Enum):
    """What a run says about a demand."""

    KEPT = "kept"
    MISSED = "MISSED"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


def outcome(verdict: Verdict) -> Outcome:
    """Kept or missed only if the whole interval lies on one side of the bound."""
    if verdict.value is None:
        return Outcome.NOT_MEASURED
    low, high = interval(verdict)
    if not verdict.counted and verdict.rounds < LEAST_ROUNDS:
        return Outcome.UNDECIDED
    best, worst = (low, high) if verdict.at_most else (-high, -low)
    bound = verdict.bound if verdict.at_most else -verdict.bound
    if worst <= bound:
        return Outcome.KEPT
    return Outcome.MISSED if best > bound else Outcome.UNDECIDED


def interval(verdict: Verdict) -> tuple[float, float]:
    """From which to which value the truth may be; the value alone where there is no interval."""
    value = verdict.value or 0.0
    return value if verdict.low is None else verdict.low, value if verdict.high is None else verdict.high


def reason(verdict: Verdict) -> str:
    """Why a demand is undecided; empty for every other outcome."""
    if outcome(verdict) is not Outcome.UNDECIDED:
        return ""
    if not verdict.rounds:
        return "the number of rounds is not known"
    if verdict.rounds < LEAST_ROUNDS:
        return f"{verdict.rounds} round{'s' * (verdict.rounds > 1)}, {LEAST_ROUNDS} are needed"
    return "the interval straddles the bound"


def bound(verdict: Verdict) -> str:
    """The bound in words."""
    return f"{'at most' if verdict.at_most else 'at least'} {verdict.bound:g} {verdict.unit}".strip()


def line(verdict: Verdict) -> str:
    """One verdict, for a terminal."""
    value = "" if verdict.value is None else f"{verdict.value:.3g} {verdict.unit}".strip()
    if verdict.low is not None and verdict.high is not None:
        value += f" ({verdict.low:.3g} to {verdict.high:.3g})"
    why = reason(verdict)
    text = f"{outcome(verdict).value:<12} {value:>24}, {bound(verdict)}  {verdict.scenario}: {verdict.text}"
    return f"{text} [{why}]" if why else text


def count(verdicts: Iterable[Verdict]) -> Counter[Outcome]:
    """How many demands have each outcome."""
    return Counter(outcome(verdict) for verdict in verdicts)
