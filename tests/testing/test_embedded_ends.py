"""However a program ends, no local master outlives it, and nobody else ends them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..servers import gone

PROGRAM = """
import os, sys, time
from rlock.testing.local.embedded import Masters
masters = Masters(2)
print(*(master.pid for master in masters), *(master.directory for master in masters), flush=True)
"""


Run = Callable[[str], tuple[subprocess.Popen[str], list[int], list[Path]]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts PROGRAM with an ending; gives the process, and the pids and directories of its masters."""
    with contextlib.ExitStack() as stack:

        def start(ending: str) -> tuple[subprocess.Popen[str], list[int], list[Path]]:
            program = subprocess.Popen(
                [sys.executable, "-c", PROGRAM + ending],
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # so that a test that fails ends the forked children, too
            )
            stack.callback(program.wait)
            stack.callback(_kill_group, program.pid)
            assert program.stdout is not None
            with program.stdout:
                words = program.stdout.readline().split()
            for directory in words[2:]:
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            return program, [int(word) for word in words[:2]], [Path(word) for word in words[2:]]

        yield start


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.parametrize("freeze", [False, True], ids=["running", "paused"])
def test_a_killed_parent_takes_its_servers_with_it(run: Run, freeze: bool) -> None:
    program, pids, _ = run(f"{freeze} and masters[0].pause(); time.sleep(60)")
    time.sleep(0.1)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert all(gone(pid) for pid in pids)


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "raise RuntimeError", "del masters; time.sleep(1)"]
)
def test_a_program_that_forgets_to_close_leaves_neither_server_nor_directory(run: Run, ending: str) -> None:
    program, pids, directories = run("sys.stderr.close()\n" + ending)
    program.wait(20)
    assert all(gone(pid) for pid in pids)
    assert not any(directory.exists() for directory in directories)


def test_a_forked_child_that_exits_leaves_its_parents_servers_alone(run: Run) -> None:
    program, pids, _ = run(
        "child = os.fork()\n"
        "if child == 0: masters.close(); sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "sys.exit(0 if all(m.running and m.directory.exists() and m._answers() for m in masters) else 9)"
    )
    assert program.wait(20) == 0
    assert all(gone(pid) for pid in pids)
