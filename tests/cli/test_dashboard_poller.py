"""When the dashboard looks at the masters: on demand, once for all who ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rlock.cli.dashboard.poller import Poller
from rlock.cli.scan.snapshot import Snapshot
from rlock.errors import RLockError

from ..lock.conftest import eventually
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
    poller = Poller(looker, every_s=0.3, idle_s=1.0)
    yield poller
    looker.gate.set()
    poller.close()
    assert looker.closed == looker.made


def test_nobody_looks_before_somebody_asks_and_all_who_ask_share_a_look(
    looker: Looker, poller: Poller
) -> None:
    assert (looker.made, looker.looks) == (0, 0)
    first = poller.sight()
    assert first.snapshot is not None
    assert poller.sight() is first
    assert looker.looks == 1
    assert eventually(lambda: poller.sight() is not first)
    assert (looker.made, looker.looks) == (1, 2)


def test_after_a_rest_the_scan_begins_anew(looker: Looker, poller: Poller) -> None:
    poller.sight()
    time.sleep(1.1)
    poller.sight()
    assert (looker.made, looker.closed) == (2, 1)


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
    hangs = threading.Thread(target=poller.sight)
    hangs.start()
    assert eventually(lambda: looker.made == 1)
    assert poller.sight(0.1).snapshot is None
    looker.gate.set()
    hangs.join(10)
    assert poller.sight().snapshot is not None
