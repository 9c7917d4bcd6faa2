"""Tables: how a figure is written, which rows and columns there are, and in which order."""

from __future__ import annotations

import pytest

from bench.harness.results import Case, Row, Scenario
from bench.report.layout import named, said
from bench.report.tables import render, tables
from bench.report.text import Table, number, quoted, size

from .sample import sample


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (0.00123, "0.0012"),
        (0.4123, "0.412"),
        (4.1234, "4.12"),
        (41.234, "41.2"),
        (99.96, "100"),
        (412.3, "412"),
        (4123.4, "4,123"),
        (3.0, "3"),
        (-2.5, "-2.50"),
    ],
)
def test_a_figure_has_three_digits_that_count(value: float, told: str) -> None:
    assert number(value) == told


@pytest.mark.parametrize(
    ("value", "told"), [(0.0, "0 B"), (640.0, "640 B"), (1234.0, "1.23 kB"), (9.1e10, "91 GB")]
)
def test_bytes_are_told_in_a_unit_of_people(value: float, told: str) -> None:
    assert size(value) == told


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        ("first_look_us", "first look, µs"),
        ("commands_per_s", "commands a second"),
        ("wall_s", "wall, s"),
        ("left_bytes", "left"),
        ("gave_up", "gave up"),
    ],
)
def test_a_figure_that_nobody_has_thought_of_has_a_heading_with_its_unit(figure: str, told: str) -> None:
    assert named(figure) == told


def test_a_case_is_said_in_words() -> None:
    assert said({"masters": 5, "processes": 8, "threads": 1}) == "N = 5, 8 processes, 1 thread each"
    assert said({"rtt_ms": [2, 2, 2]}) == "masters 2 ms away"
    assert said({"rtt_ms": [1, 20, 80], "round_trip_us": 20100.0}) == "masters 1, 20, 80 ms away"
    assert said({"state": "one dead", "locks": 10_000, "seats": 3}) == "one dead, 10,000 locks, seats 3"


def scenario(name: str, *cases: Case) -> Scenario:
    return Scenario(name, "A title", "A question?", list(cases))


def test_ours_come_first_then_the_peers_by_what_is_asked_then_the_floors() -> None:
    rows = {
        "floor-all": Row({"p50_us": 1.0}),
        "pottery": Row({"p50_us": 9.0}),
        "redsync": Row(error="Failed: gone"),
        "redlock-ng": Row({"p50_us": 4.0}),
        "rlock": Row({"p50_us": 5.0}),
    }
    (table,) = tables(scenario("pair", Case({"masters": 5}, rows)))
    assert [row[0] for row in table.rows][:4] == ["**rlock**", "redlock-ng", "pottery", "redsync †"]
    (more,) = tables(
        scenario(
            "contention",
            Case({}, {k: Row({"changes_per_s": r.figures.get("p50_us", 0)}) for k, r in rows.items()}),
        )
    )
    assert [row[0] for row in more.rows][1:3] == ["pottery", "redlock-ng"]


def test_cases_that_differ_in_one_setting_stand_side_by_side() -> None:
    one = Case({"masters": 1}, {"rlock": Row({"p50_us": 100.0}), "redis-py": Row({"p50_us": 200.0})})
    five = Case(
        {"masters": 5},
        {"rlock": Row({"p50_us": 412.3, "p50_low_us": 400.0, "p50_high_us": 450.0, "p99_us": 900.0})},
    )
    (table,) = tables(scenario("pair", one, five))
    assert table.heading == ["", "N = 1", "N = 5", "N = 5: p99, µs"]
    assert table.rows == [
        ["**rlock**", "100", "412 (400\u2011450)", "900"],
        ["redis-py Lock", "200", "-", "-"],
    ]


def test_a_figure_that_no_layout_knows_is_shown_all_the_same() -> None:
    case = Case({"masters": 3}, {"rlock": Row({"left_bytes": 2400.0, "count": 3.0})})
    (table,) = tables(scenario("a_new_one", case))
    assert (table.heading, table.rows) == (["", "left"], [["**rlock**", "2.40 kB"]])


def test_the_stacks_of_the_flame_graph_are_no_table() -> None:
    stacks = Case({"masters": 5, "stacks": "wall"}, {"rlock": Row({"a;b": 3.0})})
    assert tables(scenario("steps", stacks)) == []


def test_an_error_cannot_break_the_table_that_it_stands_in() -> None:
    table = Table(["", "error"], [["x", quoted("a|b\n`c` " + "d" * 300)]])
    *_, line = table.markdown().splitlines()
    assert line.startswith("| x | `a¦b 'c' ddd")
    assert line.endswith("…` |")
    assert len(line) < 190


def test_a_terminal_shows_every_scenario_in_columns_without_marks() -> None:
    told = render(sample())
    for one in sample().scenarios:
        assert one.title in told
        assert one.question in told
    assert "**" not in told
    assert "Failed: no answer within 12 s" in told
    lines = [line for line in told.splitlines() if line.startswith(("  rlock ", "  pottery "))]
    assert len({len(line) for line in lines[:2]}) == 1


def test_a_quick_run_says_that_it_is_one() -> None:
    results = sample()
    assert "a full run" in render(results)
    results.quick = True
    assert "a quick run" in render(results)
