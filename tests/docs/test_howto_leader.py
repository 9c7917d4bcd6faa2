"""docs/howto/leader.md and examples/leader.py, with Celery beat, APScheduler and Django."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlock

from ..lock.conftest import eventually
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from .pages import PYTHON, TOP, block, lay_out, starter

PAGE = "howto/leader.md"
PROGRAM = TOP / "examples" / "leader.py"


class Member:
    """One process of the page, and what it says: the tokens of its steps."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.steps: list[int] = []
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if len(words) == 2 and words[0] == str(self.process.pid):
                self.steps.append(int(words[1]))
            else:
                self.log.append(line)

    @property
    def token(self) -> int:
        """The token of its last step, 0 before the first."""
        return self.steps[-1] if self.steps else 0


Crew = tuple[Member, Member]


@pytest.fixture
def start_member(masters3: Fleet, tmp_path: Path) -> Iterator[Callable[..., Member]]:
    with starter(tmp_path, masters3.urls) as start:
        yield lambda: Member(start(PYTHON, str(PROGRAM)))


@pytest.fixture
def crew(
    start_member: Callable[..., Member], masters3: Fleet, make_client: Callable[..., rlock.Client]
) -> Crew:
    """One that leads and one that stands by."""
    leader = start_member()
    assert eventually(lambda: leader.token, 20)
    standby = start_member()
    lock = make_client(masters3.urls).lock("reports")
    assert eventually(lambda: lock.statistics().waiters, 20), "it does not stand by"
    assert not standby.token
    return leader, standby


def test_a_leader_that_was_stopped_leads_no_more_when_it_goes_on(crew: Crew) -> None:
    leader, standby = crew
    leader.process.send_signal(signal.SIGSTOP)
    try:
        assert eventually(lambda: standby.token, 15)
    finally:
        before = len(leader.steps)
        leader.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: "'reports' was lost" in "".join(leader.log), 15)
    # At the most the step that it was in; its token tells the receiver.
    assert len(leader.steps) - before <= 1
    assert leader.token < standby.token
    steps = len(standby.steps)
    assert eventually(lambda: len(standby.steps) > steps, 10), "the other one works on"
    assert leader.process.poll() is None


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
