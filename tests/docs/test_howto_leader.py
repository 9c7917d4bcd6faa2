"""docs/howto/leader.md and examples/leader.py, with Celery beat, APScheduler and Django."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..lock.conftest import eventually
from ..servers import Fleet
from .pages import PYTHON, lay_out, starter

PAGE = "howto/leader.md"


#: The package of a recipe, its command, what the leader says again and again, and faster than on the page.
RECIPES = {
    "celery": (
        ["sh", "beat.sh"], "Sending due task report", {
            "beat_tasks.py": ("60.0", "0.5"),
            "beat.sh": ("/var/tmp/celerybeat-schedule", "$$.schedule -l INFO"),
        },
    ),
    "apscheduler": ([PYTHON, "jobs.py"], "clean up [0-9]+", {"jobs.py": ("seconds=60", "seconds=0.3")}),
    "django": ([PYTHON, "-m", "django", "outbox"], "sent with token [0-9]+", {}),
}  # fmt: skip


@pytest.mark.parametrize("package", RECIPES)
def test_one_machine_works_and_the_other_one_after_its_end(
    package: str, masters3: Fleet, tmp_path: Path
) -> None:
    pytest.importorskip(package, reason=f"{package} is in the extra test")
    command, says, changes = RECIPES[package]
    for name in ("rlock", "celery"):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {PYTHON} -m {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    logs = [tmp_path / f"log{i}" for i in range(2)]

    def said() -> list[int]:
        """How often each machine has said it."""
        return [len(re.findall(says, log.read_text())) for log in logs]

    told = {"BROKER_URL": masters3[0].url, "PYTHONUNBUFFERED": "1"}
    if package == "django":
        told["DJANGO_SETTINGS_MODULE"] = "settings"
        lay_out("howto/django.md", tmp_path)
    lay_out(PAGE, tmp_path, changes)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with starter(tmp_path, masters3.urls, PATH=path, **told) as start, ExitStack() as files:
        machines = [start(*command, stdout=files.enter_context(log.open("w"))) for log in logs]
        assert eventually(lambda: any(said()), 40), [log.read_text() for log in logs]
        before = said()
        assert before.count(0) == 1, before
        first = 1 - before.index(0)
        machines[first].send_signal(signal.SIGTERM)
        machines[first].wait(30)
        ended = said()[first]
        assert eventually(lambda: said()[1 - first], 40), logs[1 - first].read_text()
        assert said()[first] == ended
