"""The command under guard: what comes while it is being started."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from rlock.cli.run.child import GuardedCommand


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
    assert guarded.run(dict(os.environ)) == 128 + number
