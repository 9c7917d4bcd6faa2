"""docs/howto/leader.md and examples/leader.py: the program is stopped beyond its lease."""

from __future__ import annotations

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
from .pages import PYTHON, TOP, starter

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
    lock = make_client(masters3.urls).lock("leader:reports")
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
    assert eventually(lambda: "standing by again" in "".join(leader.log), 15)
    # At the most the step that it was in; its token tells the receiver.
    assert len(leader.steps) - before <= 1
    assert leader.token < standby.token
    steps = len(standby.steps)
    assert eventually(lambda: len(standby.steps) > steps, 10), "the other one works on"
    assert leader.process.poll() is None
