"""Verdicts on the demands, honest about noise: an interval that straddles its bound decides nothing."""

from __future__ import annotations

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
    KEPT = "kept"
    MISSED = "MISSED"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


def outcome(verdict: Verdict) -> Outcome:
    """Kept or missed only if the whole interval lies on one side of the bound."""
    if verdict.value is None:
        return Outcome.NOT_MEASURED
    low = verdict.value if verdict.low is None else verdict.low
    high = verdict.value if verdict.high is None else verdict.high
    if not verdict.counted and verdict.rounds < LEAST_ROUNDS:
        return Outcome.UNDECIDED
    best, worst = (low, high) if verdict.at_most else (-high, -low)
    bound = verdict.bound if verdict.at_most else -verdict.bound
    if worst <= bound:
        return Outcome.KEPT
    return Outcome.MISSED if best > bound else Outcome.UNDECIDED


def reason(verdict: Verdict) -> str:
    """Why a demand is undecided; empty for every other outcome."""
    if outcome(verdict) is not Outcome.UNDECIDED:
        return ""
    if not verdict.rounds:
        return "the number of rounds is not known"
    if verdict.rounds < LEAST_ROUNDS:
        return f"{verdict.rounds} round{'s' * (verdict.rounds > 1)}, {LEAST_ROUNDS} are needed"
    return "the interval straddles the bound"


def line(verdict: Verdict) -> str:
    value = "" if verdict.value is None else f"{verdict.value:.3g} {verdict.unit}".strip()
    if verdict.low is not None and verdict.high is not None:
        value += f" ({verdict.low:.3g} to {verdict.high:.3g})"
    why = reason(verdict)
    bound = f"{'at most' if verdict.at_most else 'at least'} {verdict.bound:g} {verdict.unit}".strip()
    text = f"{outcome(verdict).value:<12} {value:>24}, {bound}  {verdict.scenario}: {verdict.text}"
    return f"{text} [{why}]" if why else text
