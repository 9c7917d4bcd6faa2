"""docs/performance.md and bench/results.md show what their results say, and the command draws them again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness.results import Results
from bench.report import page, plots

from ..docs.pages import DOCS, TOP, marked

WRITE = "run: python -m bench.report"
PAGE = DOCS / "performance.md"


@pytest.fixture(scope="module")
def published() -> Results:
    return Results.read(page.RESULTS)


def test_every_plot_and_every_table_that_is_made_is_on_a_page(published: Results) -> None:
    there = [mark for each in page.PAGES for mark in page.MARK.findall(each.read_text(encoding="utf-8"))]
    assert {name for _, kind, name, *_ in there if kind == "plot"} == {*plots.PLOTS}
    scenarios = {scenario.name for scenario in published.scenarios}
    assert {name for _, kind, name, *_ in there if kind == "table"} == {*page.SPECIAL, *scenarios}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the command needs of a checkout, in a place that it may change."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "results", "target")
    shutil.copytree(TOP / "bench", tmp_path / "bench", ignore=ignored)
    (tmp_path / "docs" / "performance").mkdir(parents=True)
    shutil.copy(PAGE, tmp_path / "docs")
    return tmp_path


def run(checkout: Path, command: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = command.split()
    assert program == "python"
    env = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{TOP}"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=env, capture_output=True, text=True, timeout=100
    )


def drawn(top: Path) -> dict[str, str]:
    """The pages and their plots."""
    paths = [
        top / "docs" / PAGE.name,
        top / "bench" / "results.md",
        *(top / "docs/performance").glob("*.svg"),
    ]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_the_command_of_the_page_draws_the_pages_again(checkout: Path, published: Results) -> None:
    folder = checkout / "docs" / "performance"
    published.write(folder / "results.json")
    (folder / "of-an-older-run.svg").write_text("<svg/>")
    (block,) = marked(PAGE, "tests/bench/test_page.py")
    (command,) = [line[2:] for line in block.splitlines()]
    assert "written: docs/performance/pair.svg" in (done := run(checkout, command)).stdout, done.stderr
    assert drawn(checkout) == drawn(TOP), WRITE
    assert "nothing to change" in run(checkout, command).stdout
    assert drawn(checkout) == drawn(TOP)
