"""The command under guard: what comes while it is being started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

import pytest

from rlock.program.ward import Ward


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_command_is_being_started_reaches_it(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward(["sleep", "30"], grace=1.0)
    real = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> Any:
        child = real(*words, **options)
        ward.signalled(number)  # forked already, and not known yet
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    began = time.monotonic()
    assert ward.run(dict(os.environ)) == 128 + number
    assert time.monotonic() - began < 15


def test_a_signal_before_the_start_ends_the_wait() -> None:
    ward = Ward(["true"], grace=1.0)
    with pytest.raises(SystemExit) as ended:
        ward.signalled(signal.SIGTERM)
    assert ended.value.code == 143
