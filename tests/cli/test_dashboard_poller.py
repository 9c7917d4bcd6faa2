"""Who looks for the dashboard: one thread, while somebody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rlock.cli.dashboard.poller import Poller
from rlock.cli.scan.snapshot import Snapshot
from rlock.errors import RLockError

from ..contract.conftest import eventually
from .dashboards import snapshot


class Looker:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.made = self.looks = self.closed = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> Looker:
        self.made += 1
        return self

    def look(self) -> Snapshot:
        self.gate.wait(20)
        self.looks += 1
        if self.error is not None:
            raise self.error
        return snapshot()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def looker() -> Looker:
    return Looker()


@pytest.fixture
def poller(looker: Looker) -> Iterator[Poller]:
    poller = Poller(looker, every_s=0.3, idle_s=1.2)
    yield poller
    looker.gate.set()
    poller.close()


def test_nobody_looks_before_somebody_watches(looker: Looker, poller: Poller) -> None:
    before = threading.active_count()
    time.sleep(0.5)
    assert (looker.made, looker.looks, threading.active_count()) == (0, 0, before)
    assert poller.sight().snapshot is not None, "the first question waits for the first look"


def test_looks_and_connections_end_when_nobody_watches(looker: Looker, poller: Poller) -> None:
    poller.sight()
    assert eventually(lambda: looker.closed == 1, within=5)
    seen = looker.looks
    time.sleep(0.5)
    assert looker.looks == seen
    old = poller.sight().snapshot
    assert old is not None
    assert old.at > time.time() - 1.0, "after a rest the first answer is fresh"
    assert looker.made == 2


@pytest.mark.parametrize("error", [RLockError("the masters are away"), ZeroDivisionError("a bug")])
def test_a_look_that_fails_is_told_and_followed_by_others(
    error: Exception, looker: Looker, poller: Poller
) -> None:
    first = poller.sight()
    looker.error = error
    assert eventually(lambda: poller.sight().error is not None)
    assert poller.sight().error == str(error)
    assert poller.sight().snapshot is not None, "the last one is kept"
    looker.error = None
    assert eventually(lambda: poller.sight().error is None)
    assert poller.sight().snapshot is not first.snapshot


def test_a_look_that_hangs_keeps_no_answer_back(looker: Looker, poller: Poller) -> None:
    looker.gate.clear()
    began = time.monotonic()
    assert poller.sight(0.3).snapshot is None
    assert time.monotonic() - began < 2
    began = time.monotonic()
    poller.sight(10)
    assert time.monotonic() - began < 2, "it is under way: nobody waits for it twice"
    looker.gate.set()
    assert eventually(lambda: poller.sight().snapshot is not None)
