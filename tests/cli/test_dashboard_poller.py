"""When the dashboard looks at the masters: on demand, once for all who ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from rlock.cli.dashboard.poller import Poller
from rlock.errors import RLockError

from ..lock.conftest import eventually
from .dashboards import snapshot


@pytest.fixture
def scans() -> Mock:
    """Makes what looks, and counts what is asked of it."""
    scans = Mock()
    scans.return_value.look.side_effect = snapshot
    return scans


@pytest.fixture
def poller(scans: Mock) -> Iterator[Poller]:
    poller = Poller(scans, every_s=0.3, idle_s=1.0)
    yield poller
    poller.close()
    assert scans.return_value.close.call_count == scans.call_count


def test_nobody_looks_before_somebody_asks_and_all_who_ask_share_a_look(scans: Mock, poller: Poller) -> None:
    look = scans.return_value.look
    assert (scans.call_count, look.call_count) == (0, 0)
    first = poller.sight()
    assert first.snapshot is not None
    assert poller.sight() is first
    assert look.call_count == 1
    assert eventually(lambda: poller.sight() is not first)
    assert (scans.call_count, look.call_count) == (1, 2)


def test_after_a_rest_the_scan_begins_anew(scans: Mock, poller: Poller) -> None:
    poller.sight()
    time.sleep(1.1)
    poller.sight()
    assert (scans.call_count, scans.return_value.close.call_count) == (2, 1)


@pytest.mark.parametrize("error", [RLockError("the masters are away"), ZeroDivisionError("a bug")])
def test_a_look_that_fails_is_told_and_followed_by_others(
    error: Exception, scans: Mock, poller: Poller
) -> None:
    first = poller.sight()
    scans.return_value.look.side_effect = error
    assert eventually(lambda: poller.sight().error is not None)
    assert poller.sight().error == str(error)
    assert poller.sight().snapshot is not None, "the last one is kept"
    scans.return_value.look.side_effect = snapshot
    assert eventually(lambda: poller.sight().error is None)
    assert poller.sight().snapshot is not first.snapshot


def test_a_look_that_hangs_keeps_no_answer_back(scans: Mock, poller: Poller) -> None:
    gate = threading.Event()
    scans.return_value.look.side_effect = lambda: gate.wait(20) and snapshot()
    hangs = threading.Thread(target=poller.sight)
    hangs.start()
    assert eventually(lambda: scans.call_count == 1)
    assert poller.sight(0.1).snapshot is None
    gate.set()
    hangs.join(10)
    assert poller.sight().snapshot is not None
