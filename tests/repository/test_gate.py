"""`python -m evidence` turns no red into green, and no test of the lock gets a second try."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import cast

import pytest
import site_evidence

from evidence import __main__ as runner

from .. import quick


def marked(path: Path, name: str) -> pytest.Item:
    """A test of this file with this marker; it notes the markers that it gets."""
    found = [name]
    one = SimpleNamespace(
        path=path,
        nodeid=str(path),
        markers=found,
        get_closest_marker=lambda wanted: wanted in found,
        add_marker=lambda mark: found.append(mark.name),
    )
    return cast(pytest.Item, one)


@pytest.mark.parametrize("folder", ["tests/lock", "tests/faults", "tests/masters", "evidence/soak", "."])
def test_a_test_of_the_lock_cannot_be_marked_for_a_second_try(folder: str) -> None:
    with pytest.raises(pytest.UsageError, match="no second try"):
        quick.mark([marked(quick.TOP / folder / "test_x.py", "timing")])


PART = runner.Part("good", "a title", "a scope", "good", result=r"^found.*")
#: Programs by name: exit status, and what they print.
PRINTING = {
    "good": (0, "much\nfound  3 things"),
    "bad": (3, "found"),
    "silent": (0, "much"),
    "absent": (77, "no Go"),
}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In both lanes a part that fails in front of a good one, and one whose tool is missing."""
    for name, (status, text) in PRINTING.items():
        (tmp_path / f"{name}.py").write_text(f"print({text!r})\nraise SystemExit({status})\n")
    bad, silent, absent = (replace(PART, name=name, command=name) for name in ("bad", "silent", "absent"))
    models, masters = (bad, PART), (silent, absent, replace(PART, name="last", quick=True))
    for name, value in {"MODELS": models, "MASTERS": masters, "PARTS": (*models, *masters)}.items():
        monkeypatch.setattr(runner, name, value)
    monkeypatch.setattr(runner, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(runner, "PUBLISHED", tmp_path / "results.json")
    monkeypatch.setattr(site_evidence, "RESULTS", tmp_path / "results.json")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("parts")
def test_a_part_that_fails_stops_no_other_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main([]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "---- evidence: failed: bad, silent"
    assert "skipped: evidence, absent: no Go" in out
    found = {path.stem: json.loads(path.read_text())["status"] for path in runner.FOLDER.glob("*.json")}
    assert found == {"bad": "red", "good": "green", "silent": "red", "absent": "skipped", "last": "green"}
    assert runner.main(["--publish"]) == 1
    assert not runner.PUBLISHED.exists()


@pytest.mark.usefixtures("parts")
def test_results_join_those_of_earlier_runs_and_become_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["--only", "good"], ["--quick"]):
        assert runner.main(words) == 0
        with monkeypatch.context() as patched:
            patched.setattr("subprocess.run", lambda *_, **__: CompletedProcess((), 0))  # the pages stay
            assert runner.main(["--publish"]) == 0
        for path in runner.FOLDER.glob("*.json"):
            path.unlink()
    rows = site_evidence.table("evidence").splitlines()[2:]
    assert [row.count("| found 3 things | `python -m good` |") for row in rows] == [1, 1]
