"""The command under guard: what comes while it is being started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import Any

import pytest

import rlock
from rlock.cli.run.child import GuardedCommand

from ..contract.conftest import eventually


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_command_is_being_started_reaches_it(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = GuardedCommand(["sleep", "30"], grace=1.0)
    real = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> Any:
        child = real(*words, **options)
        guarded.signalled(number)  # forked already, and not known yet
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    began = time.monotonic()
    assert guarded.run(dict(os.environ)) == 128 + number
    assert time.monotonic() - began < 15


def test_a_signal_before_the_start_ends_the_wait() -> None:
    guarded = GuardedCommand(["true"], grace=1.0)
    with pytest.raises(SystemExit) as ended:
        guarded.signalled(signal.SIGTERM)
    assert ended.value.code == 143


def test_ctrl_c_while_the_command_is_being_started_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> Any:
        child = real(*words, **options)
        child.send_signal(signal.SIGINT)  # as the terminal sends it to the whole group
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert GuardedCommand(["sleep", "30"], grace=1.0).run(dict(os.environ)) == 128 + signal.SIGINT
    assert capfd.readouterr().err == ""


def test_nothing_of_ours_runs_between_fork_and_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python in the child of a threaded process waits for ever for a lock that another thread held.
    given: dict[str, Any] = {}
    real = subprocess.Popen

    def noted(*words: Any, **options: Any) -> Any:
        given.update(options)
        return real(*words, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    assert GuardedCommand(["true"], grace=1.0).run(dict(os.environ)) == 0
    assert given.get("preexec_fn") is None


@pytest.mark.parametrize("on_lost", ["term", "kill"])
def test_a_command_of_another_user_that_may_not_be_ended_is_told_of(
    on_lost: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guarded = GuardedCommand(["sh", "-c", "read line"], grace=0.1, on_lost=on_lost)
    reader, writer = os.pipe()  # what the command waits for

    def refused(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refused)
    monkeypatch.setattr(os, "kill", refused)
    stdin = os.dup(0)
    os.dup2(reader, 0)
    try:
        running = threading.Thread(target=guarded.run, args=[dict(os.environ)])
        running.start()
        assert eventually(lambda: guarded.started)
        guarded.lost(rlock.LeaseLostError("x", "evicted"))
        os.write(writer, b"\n")
        running.join(10)
    finally:
        os.dup2(stdin, 0)
        for descriptor in (stdin, reader, writer):
            os.close(descriptor)
    names = ["SIGTERM", "SIGKILL"] if on_lost == "term" else ["SIGKILL"]
    told = [f"rlock: sh: cannot be sent {name}: it runs as another user" for name in names]
    assert capsys.readouterr().err.splitlines() == told
