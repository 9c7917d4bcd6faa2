"""Figures, verdicts on the demands, and contestants that take turns, also where some of them fail."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import bench.__main__ as command
from bench.harness import figures
from bench.harness.contestants import Contestant
from bench.harness.demands import judge
from bench.harness.results import Case, Results, Row, Scenario
from bench.harness.sections import Section, overlaps
from bench.harness.turns import Clock, Runners
from bench.harness.verdicts import Outcome, Verdict, line, outcome, reason
from bench.harness.worker import Failed, Worker


def test_five_rounds_give_their_lowest_and_highest_value_and_more_rounds_less() -> None:
    assert figures.estimate([3.0, 1.0, 2.0, 5.0, 4.0]) == figures.Estimate(3.0, 1.0, 5.0, 5)
    # 1 - 2 (1 + 9) / 2 ** 9 = 96 % for the second lowest and highest of nine; the third ones have 82 %.
    nine = figures.estimate([float(n) for n in range(1, 10)])
    assert nine == figures.Estimate(5.0, 2.0, 8.0, 9)
    assert figures.estimate([]) is None


def test_durations_are_in_microseconds_and_a_p99_has_enough_samples() -> None:
    few = figures.durations([[1000.0, 2000.0, 3000.0], [], [5000.0]])
    assert few == {"p50_us": [2.0, 5.0], "p99_us": [5.0]}
    batch = [float(ns) for ns in range(1000, 26_000, 1000)]
    found = figures.durations([batch] * 9)
    assert len(found["p50_us"]) == 9
    assert found["p99_us"] == [25.0, 25.0]


def test_a_ratio_is_taken_round_by_round() -> None:
    assert figures.ratios([200.0, 410.0, 7.0], [100.0, 200.0]) == [2.0, 2.05]
    assert figures.ratios([1.0, 2.0], [0.0, 1.0]) == [2.0]


def test_each_section_that_begins_in_another_one_is_an_overlap() -> None:
    first, second, third = (
        Section(i, 0, 0, begin, end) for i, begin, end in ((0, 1, 2), (1, 2, 3), (0, 3, 4))
    )
    assert overlaps([first, second, third]) == 0
    # The third one begins after the second has ended, and in the first.
    long, later = Section(0, 0, 0, 1, 10), Section(1, 1, 3, 9, 12)
    assert overlaps([later, long, second]) == 2


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


def test_the_exit_status_and_the_line_say_that_a_demand_is_undecided() -> None:
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
    words = [line(one).split()[0] for one in (kept, missed, undecided)]
    assert words == ["kept", "MISSED", "undecided"]


WORKER = """
import json, sys, time
how = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    do, count = request["do"], request.get("count", 0)
    sections = [[0, 0, 0, 0, 1000]] * count
    reply = {"ok": True, "version": "1", "runtime": "none", "sections": sections, "errors": []}
    if do == "loop":
        if how == "ends":
            sys.exit("it had enough")
        if how == "hangs":
            time.sleep(600)
        if how == "prints":
            print("warming up", flush=True)
        if how == "raises":
            reply = {"ok": False, "error": "LockError: no such lock"}
        if how == "sometimes" and count > 1:
            reply["errors"] = ["LockError: not this time"]
            reply["sections"].pop()
    print(json.dumps(reply), flush=True)
"""


@dataclass(frozen=True)
class Broken(Contestant):
    """A contestant whose adapter says how it fails."""

    def start(self) -> Worker:
        if self.adapter == "cannot start":
            raise Failed("pip failed: no such package")
        return Worker([sys.executable, "-c", WORKER, self.adapter])


def broken(how: str) -> Broken:
    return Broken(f"broken-{how.replace(' ', '-')}", how, "peer", "Python", "many", "none", how)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cannot start", "Failed: pip failed: no such package"),
        ("ends", "Failed: it has ended: it had enough"),
        ("hangs", "Failed: no answer within 0.5 s"),
        ("prints", "Failed: no reply of the protocol: warming up"),
        ("raises", "LockError: no such lock"),
        ("sometimes", "LockError: not this time"),
    ],
)
def test_a_contestant_that_fails_has_its_error_and_the_others_go_on(how: str, error: str) -> None:
    with Runners([(broken(how), []), (broken("well"), [])]) as both:
        bad, well = both.runners
        for runner in both.turns(random.Random(1), Clock(1.0)):
            runner.batch("x", 0.5)
    row = bad.row()
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error
    assert well.error is None
    assert well.row().error is None
    assert len(well.rounds) > 10
    if how == "sometimes":
        assert row.figures["failed"] == bad.failed > 10
        assert bad.rounds, "what it did well counts"
    else:
        assert not bad.rounds
