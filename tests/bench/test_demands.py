"""Verdicts on the demands, with made-up samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import bench.__main__ as command
from bench.harness.demands import judge
from bench.harness.results import Case, Results, Row, Scenario
from bench.harness.verdicts import Outcome, Verdict, line, outcome, reason
from bench.report import summary

Rounds = Mapping[str, Sequence[float]]
#: Five rounds around a value, a percent apart.
STEADY = (0.98, 0.99, 1.0, 1.01, 1.02)


def run_of(name: str, *cases: tuple[dict[str, Any], Mapping[str, Rounds]]) -> Results:
    found = [Case(case, {key: Row.of_rounds(rows[key]) for key in rows}) for case, rows in cases]
    return Results({}, {}, "", 0.0, False, [], [Scenario(name, name, "?", found)])


def verdict(results: Results, *words: str) -> Verdict:
    """The one verdict whose demand has these words."""
    (found,) = [one for one in judge(results) if all(word in f"{one.scenario}: {one.text}" for word in words)]
    return found


def steady(value: float) -> list[float]:
    return [value * factor for factor in STEADY]


def pair(ours: Sequence[float], base: Sequence[float] = (100.0,) * 9) -> Verdict:
    """The demand of at most 1.25 times the floor."""
    rows = {"rlock": {"p50_us": ours}, "floor-all": {"p50_us": base}}
    return verdict(run_of("pair", ({"masters": 5}, rows)), "N = 5", "all replies")


@pytest.mark.parametrize(
    ("ours", "what", "why"),
    [
        (steady(110.0), Outcome.KEPT, ""),
        (steady(150.0), Outcome.MISSED, ""),
        # Wherever its median is.
        ([100.0, 110.0, 120.0, 140.0, 150.0], Outcome.UNDECIDED, "the interval straddles the bound"),
        ([100.0, 110.0, 130.0, 140.0, 150.0], Outcome.UNDECIDED, "the interval straddles the bound"),
        ([110.0] * 1, Outcome.UNDECIDED, "1 round"),
        ([150.0] * 4, Outcome.UNDECIDED, "4 rounds"),
    ],
)
def test_an_interval_of_five_rounds_on_one_side_of_the_bound_decides(
    ours: list[float], what: Outcome, why: str
) -> None:
    found = pair(ours)
    assert outcome(found) is what
    assert reason(found).startswith(why)
    assert why in line(found)


def test_a_demand_that_was_not_measured_is_neither_kept_nor_missed() -> None:
    empty = Results({}, {}, "", 0.0, False)
    assert {outcome(one) for one in judge(empty)} == {Outcome.NOT_MEASURED}
    alone = run_of("pair", ({"masters": 5}, {"rlock": {"p50_us": steady(1.0)}}))
    assert outcome(verdict(alone, "pair", "majority")) is Outcome.NOT_MEASURED


def test_one_event_that_must_never_happen_is_a_miss_without_any_interval() -> None:
    def overlaps(count: float) -> Outcome:
        run = run_of("contention", ({"masters": 5}, {"rlock": {}}))
        next(run.find("contention")).rows["rlock"].figures["overlaps"] = count
        return outcome(verdict(run, "overlap"))

    assert overlaps(0) is Outcome.KEPT
    assert overlaps(1) is Outcome.MISSED


def test_the_exit_status_and_the_page_say_that_a_demand_is_undecided() -> None:
    kept, missed = pair(steady(110.0)), pair(steady(150.0))
    undecided = pair([100.0, 110.0, 120.0, 140.0, 150.0])
    assert command.judged([kept], False, False)[0] == 0
    status, why = command.judged([kept, undecided], False, False)
    assert status == 3
    assert "1 undecided (the interval straddles the bound" in why
    assert command.judged([kept, undecided, missed], False, False)[0] == 1
    assert command.judged([kept], False, True)[0] == 1
    # A quick run has too few rounds: only events count.
    assert command.judged([missed, undecided], True, False)[0] == 0
    results = Results({}, {}, "", 0.0, False, [kept, missed, undecided])
    words = [row[-1] for row in summary.demands(results).rows]
    assert words == ["yes", "not yet", "undecided: the interval straddles the bound"]
