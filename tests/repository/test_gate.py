""".ci/run and `python -m evidence` turn no red into green; the quick set; a release has a clean tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, cast

import pytest
import site_evidence

from evidence import __main__ as runner

from .. import quick

#: Stands in for every program that the gate calls: notes the call, and does what the file of its words says.
STUB = """#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> "$CALLS"
case "$name $*" in
{cases}
esac
"""
PROGRAMS = (
    "make redis-server prometheus chromium chromedriver tmux zsh fish groff mvn javac dockerd docker-compose"
)
SLOW, TIMING = "make test-all ARGS=-n 2 -m 'slow and not timing'", "make test-all ARGS=-n 0 -m timing"
AGAIN = f"{TIMING} --last-failed --last-failed-no-failures none"
PARTS = ("make test", "make lint", "make types", "make docs", "make evidence ARGS=--quick", SLOW, TIMING)


def gate(folder: Path, **fails: str) -> tuple[int, str, list[str]]:
    """Exit status, output and calls of .ci/run where these calls do this, and all others succeed."""
    for place in (".ci", "bin", ".venv/bin"):
        (folder / place).mkdir(parents=True)
    shutil.copy(quick.TOP / ".ci" / "run", folder / ".ci")
    patterns = {f'"{call.rstrip("*")}"{"*" * call.endswith("*")}': what for call, what in fails.items()}
    cases = "\n".join(f"{pattern}) {what} ;;" for pattern, what in patterns.items())
    stubs = [f"bin/{name}" for name in PROGRAMS.split()]
    for stub in (*stubs, ".ci/engine", ".venv/bin/python"):
        path = folder / stub
        path.write_text(STUB.format(cases=cases))
        path.chmod(0o755)
    told = {"PATH": f"{folder}/bin:/usr/bin:/bin", "CALLS": f"{folder}/calls", "TMPDIR": str(folder)}
    done = subprocess.run([folder / ".ci" / "run"], env=told, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


def test_a_gate_without_failures_is_green_and_every_part_ran_once(tmp_path: Path) -> None:
    status, output, calls = gate(tmp_path)
    assert (status, output.splitlines()[-1]) == (0, "---- green")
    assert [call for call in calls if call.startswith("make")] == [*PARTS]
    assert calls[-2] == "python .ci/versions"
    assert calls[-1].startswith("engine stop ")


@pytest.mark.parametrize("part", [*PARTS[:-1], "python .ci/versions"])
def test_a_failure_is_red_and_is_not_tried_again(part: str, tmp_path: Path) -> None:
    status, output, calls = gate(tmp_path, **{part: "exit 1"})
    assert status != 0
    assert output.splitlines()[-1] == "---- red"
    assert calls[-2] == part, "something was run after the failure"
    assert calls.count(part) == 1
    assert calls[-1].startswith("engine stop ")


def test_timing_tests_that_failed_are_tried_once_more(tmp_path: Path) -> None:
    status, _, calls = gate(tmp_path / "once", **{TIMING: "exit 1"})
    assert status == 0
    assert calls.count(AGAIN) == 1
    status, _, calls = gate(tmp_path / "twice", **{TIMING: "exit 1", AGAIN: "exit 1"})
    assert status != 0
    assert calls.count(AGAIN) == 1


def test_what_was_not_checked_is_said_at_the_end_with_its_reason(tmp_path: Path) -> None:
    status, output, _ = gate(
        tmp_path,
        **{
            SLOW: "echo 'SKIPPED [3] tests/test_x.py:7: no fish on this machine'; echo passed",
            "engine start *": "echo 'the kernel has no overlay' >&2; exit 1",
            "python .ci/versions": "echo 'skipped: no Python 3.14 on this machine'; echo much",
        },
    )
    assert status == 0
    assert output.partition("---- not checked in this run:\n")[2].splitlines() == [
        "SKIPPED [3] tests/test_x.py:7: no fish on this machine",
        "skipped: a container engine of our own: the kernel has no overlay",
        "skipped: no Python 3.14 on this machine",
        "---- green",
    ]


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


@pytest.mark.parametrize(
    ("path", "marker", "slow"),
    [
        ("tests/core/test_x.py", "", False),
        ("tests/asyncio/test_x.py", "timing", True),
        ("tests/faults/test_x.py", "", True),
        ("tests/docs/deeper/test_x.py", "", True),
        ("tests/testing/test_embedded_ends.py", "", True),
    ],
)
def test_a_test_is_quick_by_its_folder_and_if_it_measures_nothing(path: str, marker: str, slow: bool) -> None:
    item: Any = marked(quick.TOP / path, marker)
    quick.mark([item])
    assert ("slow" in item.markers) == slow
    assert quick.is_slow(quick.TOP / path) <= slow


def make_release(folder: Path) -> tuple[int, str, list[str]]:
    """Exit status, output and calls of `make release`."""
    (folder / "calls").unlink(missing_ok=True)
    names = {"GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.org"}
    command = ["make", "release", "VENV=bin", "BIN=bin"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **names}, capture_output=True, text=True)
    calls = folder / "calls"
    return done.returncode, done.stdout, calls.read_text().splitlines() if calls.exists() else []


def test_a_release_is_built_of_a_clean_tree_checked_and_tagged_once_and_uploaded_by_nobody(
    tmp_path: Path,
) -> None:
    """In a repository of its own, with a Python that only notes its calls."""
    shutil.copy(quick.TOP / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\nRepository = "https://git.example/rlock"\n')
    (tmp_path / ".gitignore").write_text("bin/\ncalls\n")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/bash\necho "$@" >> calls\n')
    python.chmod(0o755)
    git = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org")
    for command in ("init -q", "add .", "commit -q -m all"):
        subprocess.run([*git, *command.split()], cwd=tmp_path, check=True)
    (tmp_path / "new.py").touch()
    status, told, calls = make_release(tmp_path)
    assert status != 0
    assert "new.py" in told
    assert calls == []
    (tmp_path / "new.py").unlink()
    status, told, calls = make_release(tmp_path)
    assert status != 0
    assert "set the addresses" in told
    assert calls == []
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
    subprocess.run([*git, "commit", "-q", "-a", "-m", "addresses"], cwd=tmp_path, check=True)
    status, _, calls = make_release(tmp_path)
    assert status == 0
    assert calls[-2:] == ["-m build", "-m twine check --strict dist/*"]
    assert "upload" not in "".join(calls)
    tags = subprocess.run(["git", "tag"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert tags == "v1.2.3\n"
    status, told, calls = make_release(tmp_path)
    assert status != 0
    assert "v1.2.3 is tagged already" in told
    assert calls == []


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
