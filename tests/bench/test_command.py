"""`python -m bench`, from the words on its command line to the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench.__main__ as command
from bench.harness import masters, plan
from bench.harness.field import Entry, field
from bench.harness.results import Case, Results
from bench.report.tables import render
from rlock.program.local.embedded import EmbeddedError, find_server
from tests.conftest import FLAVOURS

from .broken import broken

TOP = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _server() -> None:
    try:
        find_server()
    except EmbeddedError as why:
        pytest.skip(why.message)


def run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *words],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started_by(pid: int) -> set[int]:
    """The processes that it has started, and they."""
    found: set[int] = set()
    try:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found |= {child} | started_by(child)
    except OSError:
        pass  # it has ended meanwhile
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def test_a_quick_run_of_one_scenario(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    words = ["--quick", "--only", "pair", "--contestants", "rlock", "redis-py", "--json", str(path)]
    process = run(*words)
    out, err = process.communicate(timeout=60)
    results = Results.read(path)
    assert results.quick
    assert 1 < results.took_s < 15
    assert set(results.versions) == {"rlock", "redis-py"}
    assert {"cpu", "cores", "kernel", "python", "server", "load_before"} <= set(results.machine)
    (pair,) = results.scenarios
    assert [sorted(case.rows) for case in pair.cases] == [["redis-py", "rlock"], ["rlock"]]
    for case in pair.cases:
        for row in case.rows.values():
            assert row.error is None
            assert 20 < row.figures["p50_low_us"] <= row.figures["p50_us"] <= row.figures["p50_high_us"]
            assert row.figures["p50_us"] <= row.figures["p99_us"]
            assert row.figures["count"] > 50
    assert pair.cases[0].rows["redis-py"].ratios["rlock"] > 0
    # What it prints are the tables and the demands; the status says whether these were kept.
    assert pair.title in out
    assert "to redis-py's Lock" in out
    assert process.returncode == ("MISSED" in out)
    assert "pair " in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "results.json"
    words = ["--quick", "--only", "wide_area", "--contestants", "rlock", "--json", str(path)]
    process = run(*words)
    # Five masters, the proxy, a holder and a waiter.
    until = time.monotonic() + 30
    while len(started := started_by(process.pid)) < 8:
        assert time.monotonic() < until, "it does not start what it needs"
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.send_signal(number)  # the impatient
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in err + out
    assert not path.exists()
    # One that was being started in that very moment ends with its stdin, once it has come to read it.
    until = time.monotonic() + 5.0
    while alive(started):
        assert time.monotonic() < until, "left over"
        time.sleep(0.05)


def test_a_contestant_that_fails_is_shown_with_its_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "budget_s", lambda name, quick: 2.0)
    entries = [*field(["rlock"]), broken("raises"), broken("cannot start")]
    monkeypatch.setattr(command, "prepare", lambda entries: {"broken-cannot-start": "pip failed"})
    results, broke_down = command.measure(entries, ["pair"], False)
    assert not broke_down
    rows = results.scenarios[0].cases[-1].rows
    assert rows["rlock"].figures
    assert rows["rlock"].error is None
    assert rows["broken-raises"].error == "LockError: no such lock"
    assert rows["broken-cannot-start"].error == "Failed: pip failed: no such package"
    assert set(results.versions) == {"rlock", "broken-raises"}
    told = capsys.readouterr().err
    assert "broken-cannot-start cannot run: pip failed" in told
    assert "3 cases; failed: broken-cannot-start, broken-raises" in told
    table = render(results)
    assert "no such lock" in table
    assert "no such package" in table


def test_who_has_no_part_in_a_scenario_is_not_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Asking:
        NAME = TITLE = QUESTION = "idle"

        @staticmethod
        def run(entries: list[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
            asked.extend(entry.key for entry in entries)
            yield Case({"masters": 1})

    monkeypatch.setattr(plan, "load", lambda name: Asking)
    monkeypatch.setattr(command, "prepare", lambda entries: {})
    monkeypatch.setattr(command, "versions", lambda entries: {})
    command.measure(field(), ["idle"], True)
    assert "node-redlock" in asked
    assert "node-redlock-4" not in asked


def test_a_scenario_that_breaks_down_is_not_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Breaking:
        NAME = TITLE = QUESTION = "breaking"

        @staticmethod
        def run(entries: object, budget_s: float, quick: bool) -> Iterator[Case]:
            yield Case({"masters": 1})
            raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(plan, "budget_s", lambda name, quick: 1.0)
    load = plan.load
    monkeypatch.setattr(plan, "load", lambda name: Breaking if name == "breaking" else load(name))
    results, broke_down = command.measure(field(["rlock"]), ["breaking", "nested"], True)
    assert broke_down
    assert [len(scenario.cases) for scenario in results.scenarios] == [1, 1]
    assert "1 cases; broke down: ZeroDivisionError: a mistake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "speed"], "speed"),
        (["--only", "pair", "nope"], "nope"),
        (["--only"], "expected at least one"),
        (["--contestants", "nobody"], "nobody"),
        (["--masters-binary", "/bin/false"], "/bin/false"),
        (["--masters-binary", "/none"], "/none"),
        (["--json", "/proc/results.json"], "/proc/results.json"),
        (["--json", "/"], "cannot write /"),
        (["pair"], "pair"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.parse(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("bench: ")
    assert told in said.err


def test_only_a_full_run_is_published() -> None:
    assert command.parse([]).json == command.PUBLISHED
    assert command.parse([]).publish
    for words in (["--quick"], ["--only", "pair"], ["--contestants", "rlock"]):
        assert command.RESULTS in command.parse(words).json.parents
        assert not command.parse(words).publish


def test_scenarios_run_in_the_order_of_the_plan_whatever_was_asked() -> None:
    assert plan.choose(["nested", "pair"]) == ["pair", "nested"]
    assert plan.choose() == plan.names()
    files = {path.stem for path in (TOP / "bench" / "scenarios").glob("*.py")}
    assert files == set(plan.names()), "a scenario without a budget is never run"
    for name in plan.names():
        scenario = plan.load(name)
        assert name == scenario.NAME
        assert scenario.TITLE
        assert scenario.QUESTION.endswith("?")


def test_a_whole_run_stays_under_a_quarter_of_an_hour() -> None:
    assert sum(plan.budget_s(name, False) for name in plan.BUDGETS_S) <= 14 * 60
    assert sum(plan.budget_s(name, True) for name in plan.BUDGETS_S) <= 100


@pytest.mark.parametrize("name", FLAVOURS)
def test_the_masters_of_a_run_are_those_that_were_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FLAVOURS[name]
    monkeypatch.setattr(masters, "_chosen", [])
    masters.choose(server.path)
    with masters.Masters(1) as fleet:
        assert (fleet[0].binary.path, fleet[0].binary.version) == (server.path, server.version)
