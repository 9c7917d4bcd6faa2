"""What is demanded of rlock, on results that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.demands import Verdict, judge
from bench.harness.results import Case, Results, Row, Scenario


def run_of(name: str, *cases: tuple[dict[str, Any], dict[str, dict[str, float]]]) -> Results:
    told = [Case(case, {key: Row(dict(figures)) for key, figures in rows.items()}) for case, rows in cases]
    return Results({}, {}, "", 0.0, False, [Scenario(name, name, "?", told)])


def found(results: Results, *words: str) -> Verdict:
    """The one verdict whose demand has these words."""
    told = {f"{one.demand.scenario}: {one.demand.text}": one for one in judge(results)}
    (verdict,) = [one for text, one in told.items() if all(word in text for word in words)]
    return verdict


def p50(**rows: float) -> dict[str, dict[str, float]]:
    return {key.replace("_", "-"): {"p50_us": value} for key, value in rows.items()}


def test_what_was_not_measured_is_neither_kept_nor_missed() -> None:
    empty = Results({}, {}, "", 0.0, False)
    assert {verdict.kept for verdict in judge(empty)} == {None}
    assert all("not measured" in str(verdict) for verdict in judge(empty))
    # Nor is what lacks the one that it is compared with.
    assert found(run_of("pair", ({"masters": 5}, p50(rlock=1.0))), "pair", "majority").kept is None


def test_a_pair_is_compared_with_the_floors_and_with_the_fastest_peer() -> None:
    rows = p50(rlock=125.0, floor_all=100.0, floor_majority=99.0, pottery=2000.0, redsync=120.0)
    run = run_of("pair", ({"masters": 5}, rows))
    assert found(run, "pair", "N = 5", "all replies").kept is True
    assert found(run, "pair", "N = 5", "majority").kept is False
    fastest = found(run, "pair", "fastest peer")
    assert fastest.kept is False
    assert fastest.value == pytest.approx(125 / 120)
    assert "MISSED" in str(fastest)
    assert "1.04 x" in str(fastest)


def test_contention_is_compared_with_peers_of_either_kind() -> None:
    def row(changes: float, cpu: float, **more: float) -> dict[str, float]:
        return {"changes_per_s": changes, "cpu_ms_per_section": cpu, **more}

    case = {"masters": 5, "processes": 8, "threads": 2, "hold_ms": 1}
    fair = {
        "jain": 0.95,
        "starved": 0.0,
        "attempts_per_section": 1.7,
        "hand_off_p50_us": 900.0,
        "overlaps": 0.0,
    }
    rows = {
        "rlock": row(400.0, 2.0, **fair),
        "rlock-fair": row(300.0, 2.0, **{**fair, "attempts_per_section": 2.2, "jain": 0.1}),
        "pottery": row(50.0, 4.0),
        "redlock-ng": row(10.0, 1.0),
        "pottery-tuned": row(140.0, 10.0),
        "redlock-ng-tuned": row(20.0, 6.0),
    }
    run = run_of("contention", (case, rows), ({**case, "processes": 24}, {"rlock": {**fair, "starved": 1.0}}))
    values = {
        ("owner changes", "default"): (8.0, True),
        ("owner changes", "every few ms"): (400 / 140, False),
        ("CPU per section",): (2 / 6, False),
        ("got nothing",): (1.0, False),
        ("Jain",): (0.95, True),
        ("attempts",): (2.2, False),
        ("next owner",): (900.0, True),
        ("overlap",): (0.0, True),
    }
    for words, expected in values.items():
        verdict = found(run, "contention", *words)
        assert verdict.value == pytest.approx(expected[0]), words
        assert verdict.kept is expected[1], words


def test_an_error_of_ours_is_a_demand_that_was_missed() -> None:
    run = run_of("nested", ({"masters": 1}, {"rlock": {}, "rlock-fair": {}, "pottery": {}}))
    rows = run.scenarios[0].cases[0].rows
    rows["pottery"].error = "TimeoutError: not acquired"
    rows["rlock-fair"].error = "Unsupported: not reentrant"
    assert found(run, "no row of rlock").kept is True
    rows["rlock"].error = "LeaseLostError: gone"
    assert found(run, "no row of rlock").kept is False
