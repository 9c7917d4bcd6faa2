"""However a program ends, no local master outlives it, and nobody else ends them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..servers import gone

PROGRAM = """
import os, sys, time
from rlock.testing.local.embedded import Masters
masters = Masters(2)
print(*(master.pid for master in masters), *(master.directory for master in masters), flush=True)
"""


@contextlib.contextmanager
def run(ending: str) -> Iterator[tuple[subprocess.Popen[str], list[int], list[Path]]]:
    """PROGRAM with an ending: the process, and the pids and directories of its masters."""
    # In a session of its own, so that a test that fails ends the forked children, too.
    command = [sys.executable, "-c", PROGRAM + ending]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        words = program.stdout.readline().split()
        try:
            yield program, [int(word) for word in words[:2]], [Path(word) for word in words[2:]]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            for directory in words[2:]:
                shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.parametrize("freeze", [False, True], ids=["running", "paused"])
def test_a_killed_parent_takes_its_servers_with_it(freeze: bool) -> None:
    with run(f"{freeze} and masters[0].pause(); time.sleep(60)") as (program, pids, _):
        time.sleep(0.1)
        program.kill()
        assert all(gone(pid) for pid in pids)


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "raise RuntimeError", "del masters; time.sleep(1)"]
)
def test_a_program_that_forgets_to_close_leaves_neither_server_nor_directory(ending: str) -> None:
    with run("sys.stderr.close()\n" + ending) as (program, pids, directories):
        program.wait(20)
        assert all(gone(pid) for pid in pids)
        assert not any(directory.exists() for directory in directories)


def test_a_forked_child_that_exits_leaves_its_parents_servers_alone() -> None:
    ending = (
        "child = os.fork()\n"
        "if child == 0: masters.close(); sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "sys.exit(0 if all(m.running and m.directory.exists() and m._answers() for m in masters) else 9)"
    )
    with run(ending) as (program, pids, _):
        assert program.wait(20) == 0
        assert all(gone(pid) for pid in pids)
