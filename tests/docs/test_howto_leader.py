"""docs/howto/leader.md and examples/leader.py, with Celery beat, APScheduler and Django."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..lock.conftest import eventually
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from .pages import PYTHON, block, lay_out, starter

PAGE = "howto/leader.md"


class Machines:
    """Two processes of a recipe, and what each of them says."""

    def __init__(self, processes: list[subprocess.Popen[str]], logs: list[Path]) -> None:
        self.processes = processes
        self._logs = logs

    def said(self, pattern: str) -> list[int]:
        """How often each one has said something."""
        return [len(re.findall(pattern, log.read_text())) for log in self._logs]

    def change(self, pattern: str) -> None:
        """One works and the other does not; after SIGTERM to the first it is the other way round."""
        texts = [log.read_text() for log in self._logs]
        assert eventually(lambda: any(self.said(pattern)), 40), texts
        before = self.said(pattern)
        assert before.count(0) == 1, before
        first = 1 - before.index(0)
        self.processes[first].send_signal(signal.SIGTERM)
        self.processes[first].wait(30)
        ended = self.said(pattern)[first]
        assert eventually(lambda: self.said(pattern)[1 - first], 40), self._logs[1 - first].read_text()
        assert self.said(pattern)[first] == ended


@pytest.fixture
def machines(masters3: Fleet, tmp_path: Path) -> Iterator[Callable[..., Machines]]:
    with starter(tmp_path, masters3.urls, BROKER_URL=masters3[0].url, PYTHONUNBUFFERED="1") as start:

        def two(*command: str, **environment: str) -> Machines:
            logs = [tmp_path / f"log{i}" for i in range(2)]
            processes = []
            for log in logs:
                with log.open("w") as file:
                    processes.append(
                        start("env", *(f"{k}={v}" for k, v in environment.items()), *command, stdout=file)
                    )
            return Machines(processes, logs)

        yield two


def test_celery_beat_runs_on_one_machine(machines: Callable[..., Machines], tmp_path: Path) -> None:
    pytest.importorskip("celery", reason="celery is in the extra test")
    lay_out(PAGE, tmp_path, {"beat_tasks.py": ("60.0", "0.5")})
    line = block(PAGE, "beat.sh").replace("/var/tmp/celerybeat-schedule", "$$.schedule -l INFO")
    for name in ("rlock", "celery"):
        line = line.replace(f" {name} ", f" {PYTHON} -m {name} ", 1)
    machines("sh", "-c", line).change("Sending due task report")


def test_the_scheduler_of_the_leader_runs(machines: Callable[..., Machines], tmp_path: Path) -> None:
    pytest.importorskip("apscheduler", reason="apscheduler is in the extra test")
    lay_out(PAGE, tmp_path, {"jobs.py": ("seconds=60", "seconds=0.3")})
    machines(PYTHON, "jobs.py").change("clean up [0-9]+")


def test_the_command_of_the_leader_works(machines: Callable[..., Machines], tmp_path: Path) -> None:
    pytest.importorskip("django", reason="django is in the extra test")
    lay_out("howto/django.md", tmp_path)
    lay_out(PAGE, tmp_path)
    command = (PYTHON, "-m", "django", "outbox")
    machines(*command, DJANGO_SETTINGS_MODULE="settings").change("sent with token [0-9]+")
