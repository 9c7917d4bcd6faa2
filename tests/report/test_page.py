"""docs/performance.md shows what its results say, and the command that draws it again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.harness.results import Results, Row
from bench.report import page, picture, plots

from ..docs.pages import DOCS, TOP, marked
from .sample import sample

WRITE = "run: python -m bench.report"
PAGE = DOCS / "performance.md"
TEXT = PAGE.read_text(encoding="utf-8")
#: Pictures for the tests of what stands around them.
NAMED = {f"{name}.svg": "<svg/>" for name in [*plots.PLOTS, plots.FLAME]}


def words(svg: str) -> list[str]:
    """What is written in a picture."""
    return [text.text or "" for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def made_by(svg: str) -> str:
    return "".join(re.findall(r"<!-- (matplotlib [\w.]+) -->", svg))


# -- what is in the checkout ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published() -> Results | None:
    return page.published()


def test_the_tables_and_figures_of_the_page_are_those_of_its_results(published: Results | None) -> None:
    assert page.filled(TEXT, published) == TEXT, WRITE


def test_the_plots_of_the_page_are_those_of_its_results(published: Results | None) -> None:
    drawn = plots.draw(published) if published else {}
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "performance").glob("*.svg")}
    assert {*there} == {*drawn}, WRITE
    for name, svg in drawn.items():
        if made_by(there[name]) == made_by(svg):
            assert there[name] == svg, f"{name}: {WRITE}"
        else:
            # Another version of matplotlib puts things a hair's breadth elsewhere.
            assert words(there[name]) == words(svg), f"{name}: {WRITE}"


def test_the_results_of_the_page_are_of_a_full_run(published: Results | None) -> None:
    assert published is None or not published.quick


def test_every_plot_and_every_table_that_is_made_is_on_the_page() -> None:
    there = page.MARK.findall(TEXT)
    assert {name for _, kind, name, *_ in there if kind == "plot"} == {*plots.PLOTS, plots.FLAME}
    scenarios = {scenario.name for scenario in sample().scenarios}
    assert {name for _, kind, name, *_ in there if kind == "table"} == {*page.SPECIAL, *scenarios}


def test_the_prose_of_the_page_has_no_measured_figure() -> None:
    prose = page.MARK.sub("", TEXT)
    assert re.findall(r"\d[\d.,]* ?(?:µs|us)\b", prose) == []
    # Settings of the scenarios, which no run changes.
    assert {*re.findall(r"\d[\d.,]* ms\b", prose)} <= {"1 ms", "20 ms"}


# -- filling -------------------------------------------------------------------------------------------


def test_of_no_results_everything_is_said_to_be_missing() -> None:
    text = page.filled(TEXT, None)
    assert text.count(page.MISSING) == len(page.MARK.findall(TEXT))


def test_filling_again_changes_nothing_and_other_figures_do() -> None:
    results = sample()
    once = page.filled(TEXT, results, NAMED)
    assert page.MISSING not in once
    assert page.filled(once, results, NAMED) == once
    results.scenarios[0].cases[-1].rows["rlock"].figures["p50_us"] += 100
    assert page.filled(once, results, NAMED) != once


def test_a_figure_within_a_sentence_is_taken_from_its_case() -> None:
    text = "It is <!-- figure: pair rlock p50_us masters=5 --><!-- end --> µs, not "
    text += "<!-- figure: pair x y --><!-- end -->."
    results = sample()
    (case,) = results.find("pair", masters=5)
    case.rows["rlock"].figures["p50_us"] = 412.3
    assert page.MARK.sub(r"\4", page.filled(text, results, {})) == "It is 412 µs, not ?."


def test_a_plot_that_there_never_is_is_refused() -> None:
    with pytest.raises(page.UnknownMarkError, match="no plot 'nothing'"):
        page.filled("<!-- plot: nothing --><!-- end -->", sample(), NAMED)


def test_a_missed_demand_is_shown_as_missed() -> None:
    results = sample()
    (case,) = results.find("wake_up", masters=5)
    for p50, told in ((900.0, "| yes |"), (1100.0, "| **no** |")):
        case.rows["rlock"].figures["p50_us"] = p50
        (line,) = [line for line in page.table("demands", results).splitlines() if "| wake up |" in line]
        assert line.endswith(told), line


def test_a_peer_that_failed_is_listed_with_its_error() -> None:
    results = sample()
    told = page.table("failures", results)
    assert "| aioredlock | degraded (N = 5, one stalled) | `Failed: no answer within 12 s` |" in told
    summary = page.table("summary", results)
    (line,) = [line for line in summary.splitlines() if line.startswith("| aioredlock †")]
    assert line.split(" | ")[6] == "failed"


def test_a_lock_that_cannot_do_a_thing_has_not_failed() -> None:
    results = sample()
    (case,) = results.find("nested", masters=5)
    case.rows["pottery"] = Row(error="Unsupported: not reentrant")
    assert "pottery" not in page.table("failures", results)
    assert "- pottery: `Unsupported: not reentrant`" in page.table("nested", results)
    assert "pottery †" not in page.table("nested", results)


# -- the command ---------------------------------------------------------------------------------------


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
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{TOP}"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_the_command_of_the_page_draws_it_again(checkout: Path) -> None:
    folder = checkout / "docs" / "performance"
    sample().write(folder / "results.json")
    (folder / "of-an-older-run.svg").write_text("<svg/>")
    (block,) = marked(PAGE, "tests/report/test_page.py")
    (command,) = [line[2:] for line in block.splitlines()]
    assert "written: docs/performance.md" in (done := run(checkout, command)).stdout, done.stderr
    assert {path.name for path in folder.glob("*.svg")} == {*NAMED}
    text = (checkout / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.filled(text, sample(), NAMED) == text
    for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text):
        assert (checkout / "docs" / target).exists()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "nothing to change" in run(checkout, command).stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_results_from_elsewhere_become_those_of_the_page(checkout: Path) -> None:
    sample(2).write(checkout / "other.json")
    assert run(checkout, "python -m bench.report other.json").returncode == 0
    assert Results.read(checkout / "docs" / "performance" / "results.json") == sample(2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read"),
        ("not json", "not JSON"),
        ("[]", "not the results of a run"),
        ("quick", "is of a quick run"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(checkout: Path, content: str | None, told: str) -> None:
    if content == "quick":
        results = sample()
        results.quick = True
        content = results.to_json()
    if content is not None:
        (checkout / "results.json").write_text(content)
    done = run(checkout, "python -m bench.report results.json")
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (checkout / "docs" / "performance.md").read_text(encoding="utf-8") == TEXT


def test_tables_are_shown_without_writing(checkout: Path) -> None:
    results = sample()
    results.quick = True
    results.write(checkout / "quick.json")
    done = run(checkout, "python -m bench.report --show quick.json")
    assert "a quick run" in done.stdout
    assert "node-redlock" in done.stdout
    assert not list((checkout / "docs" / "performance").iterdir())


def test_plots_are_the_same_bytes_whatever_the_users_settings_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    first = plots.draw(sample())
    monkeypatch.setitem(matplotlib.rcParams, "xtick.major.size", 9.0)
    assert plots.draw(sample()) == first
    assert picture.maker() in first["pair.svg"]
