""".ci/run turns no red into green, and says at its end what was not checked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from .conftest import HERE, pytest_collection_modifyitems

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
ORDINARY, TIMING = "make test ARGS=-n 2 -m 'not timing'", "make test ARGS=-n 0 -m timing"
AGAIN = f"{TIMING} --last-failed --last-failed-no-failures none"


def gate(folder: Path, **fails: str) -> tuple[int, str, list[str]]:
    """Exit status, output and calls of .ci/run where these calls do this, and all others succeed."""
    for place in (".ci", "bin", ".venv/bin"):
        (folder / place).mkdir(parents=True)
    shutil.copy(HERE.parent / ".ci" / "run", folder / ".ci")
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
    assert [call for call in calls if call.startswith("make")] == [
        *("make lint", "make types", "make docs"),
        *(ORDINARY, TIMING),
    ]
    assert calls[-2] == "python .ci/versions"
    assert calls[-1].startswith("engine stop ")


@pytest.mark.parametrize("part", ["make lint", "make types", "make docs", ORDINARY, "python .ci/versions"])
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
            ORDINARY: "echo 'SKIPPED [3] tests/test_x.py:7: no fish on this machine'; echo passed",
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


def marked(path: Path) -> SimpleNamespace:
    return SimpleNamespace(path=path, nodeid=str(path), get_closest_marker=lambda name: name == "timing")


@pytest.mark.parametrize("folder", ["contract", "faults", "masters", "simulation", "soak", "model", "."])
def test_a_test_of_the_lock_cannot_be_marked_for_a_second_try(folder: str) -> None:
    with pytest.raises(pytest.UsageError, match="no second try"):
        pytest_collection_modifyitems([marked(HERE / folder / "test_x.py")])  # type: ignore[list-item]


def test_a_test_of_the_bench_may_be_marked_for_a_second_try() -> None:
    pytest_collection_modifyitems([marked(HERE / "bench" / "test_x.py")])  # type: ignore[list-item]
