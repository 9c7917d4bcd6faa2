"""`python -m bench`, from its words to the results, and docs/performance.md, which shows them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bench.harness.results import Results
from bench.report import page

from ..cli.shell import Done, done
from ..docs.pages import DOCS, PYTHON, TOP, marked

pytestmark = pytest.mark.usefixtures("server")


def run(*words: str, cwd: Path = TOP) -> Done:
    """A module of this checkout, or of the copy in another folder."""
    environment = {**os.environ, "PYTHONPATH": f"{cwd}{os.pathsep}{TOP}"}
    return done([PYTHON, "-m", *words], cwd=cwd, env=environment, timeout=100)


def test_a_quick_run_of_two_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    words = ["--quick", "--only", "pair", "contention", "--contestants", "rlock", "redis-py", "--json"]
    code, out, err = run("bench", *words, str(path))
    results = Results.read(path)
    assert results.quick
    assert 1 < results.took_s < 60
    assert set(results.versions) == {"rlock", "redis-py"}
    assert {"cpu", "cores", "kernel", "python", "server", "load_before"} <= set(results.machine)
    pair, contention = results.scenarios
    assert [sorted(case.rows) for case in pair.cases] == [["redis-py", "rlock"], ["rlock"]], err
    rows = [row for each in results.scenarios for case in each.cases for row in case.rows.values()]
    assert not any(row.error for row in rows)
    for row in (row for case in pair.cases for row in case.rows.values()):
        low, high, rounds = row.intervals["p50_us"]
        assert 20 < low <= row.figures["p50_us"] <= high
        assert rounds > 1
    assert pair.cases[0].rows["redis-py"].ratios["rlock"] > 0
    for case in contention.cases:
        ours = case.rows["rlock"].figures
        assert ours["overlaps"] == ours["errors"] == 0
        assert ours["changes_per_s"] > 0
        # One acquire and one release at least, but for what the ends of a short window cut off.
        assert 1 < ours["scripts_per_section"] / case.case["masters"] < 8
    # It prints the tables and the demands; a quick run judges only those that count events.
    assert pair.title in out
    assert "to redis-py's Lock" in out
    assert code == 0
    assert "exit status 0: " in err
    assert "pair " in err


WRITE = "run: python -m bench.report"
PAGE = DOCS / "performance.md"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the command needs of a checkout, in a place that it may change."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "results", "target")
    shutil.copytree(TOP / "bench", tmp_path / "bench", ignore=ignored)
    (tmp_path / "docs" / "performance").mkdir(parents=True)
    shutil.copy(PAGE, tmp_path / "docs")
    return tmp_path


def drawn(top: Path) -> dict[str, str]:
    """The page, the plot and the tables."""
    folder = top / "docs" / "performance"
    paths = [top / "docs" / PAGE.name, *folder.glob("*.svg"), *folder.glob("*.txt")]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_the_command_of_the_page_draws_the_pages_again(checkout: Path) -> None:
    folder = checkout / "docs" / "performance"
    published = Results.read(page.RESULTS)
    published.write(folder / "results.json")
    (block,) = marked(PAGE, "tests/bench/test_command.py")
    (command,) = [line.removeprefix("$ python -m ").split() for line in block.splitlines()]
    _, out, err = run(*command, cwd=checkout)
    assert "written: docs/performance/pair.svg" in out, err
    assert drawn(checkout) == drawn(TOP), WRITE
    assert "nothing to change" in run(*command, cwd=checkout).out
    assert all(scenario.title in drawn(TOP)["tables.txt"] for scenario in published.scenarios)
