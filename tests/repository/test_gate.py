""".ci/run turns no red into green; the quick set is a rule; a release is built from a clean tree only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

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
            "python .ci/versions": "echo 'skipped: no Python 3.10 on this machine'; echo much",
        },
    )
    assert status == 0
    assert output.partition("---- not checked in this run:\n")[2].splitlines() == [
        "SKIPPED [3] tests/test_x.py:7: no fish on this machine",
        "skipped: a container engine of our own: the kernel has no overlay",
        "skipped: no Python 3.10 on this machine",
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
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
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
