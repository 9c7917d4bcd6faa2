"""The process around a client: threads that end, others that ask meanwhile, and errors of a renewal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import rlock
from rlock._sync.engine import Engine
from rlock._sync.runtime import run
from rlock.errors import RLockError
from rlock.model import LeaseState
from rlock.rules.lease import Confirmation, Lease
from rlock.rules.quorum import Ballot
from rlock.testing import lose, memory_client

from ..lock.conftest import eventually


@pytest.fixture
def client() -> Iterator[rlock.Client]:
    with memory_client(1) as made:
        yield made


@pytest.mark.parametrize("options", [{}, {"renew": False}], ids=str)
def test_a_thread_that_ends_without_a_release_leaves_no_hold_and_no_engine(options: dict[str, Any]) -> None:
    client = memory_client(1, ttl=0.4, request_timeout=0.05)
    lock = client.lock("x", **options)

    def work() -> None:
        lock.acquire()
        if not options:
            lose(lock)  # it learns of the loss, and does not release

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    engine = client._engine()
    assert eventually(lambda: not len(engine.holds) and engine not in Engine.holding)
    client.close()


def test_a_loss_that_was_told_is_not_taken_back_by_a_confirmation() -> None:
    told: list[LeaseState] = []

    class Told(Confirmation):
        def proves(self) -> bool:
            if not told:
                told.append(LeaseState.HELD)
                told[0] = lease.state_at(20.0)  # another thread asks at this moment
            return len(told) == 1 and told[0] is LeaseState.LOST

    lease = Lease(10.0, 0.0, Told(Ballot(1, sent_at=100.0), {}, guarded=False))
    lease.state_at(20.0)
    assert told == [LeaseState.LOST]
    assert lease.state_at(20.0) is LeaseState.LOST


def test_an_error_of_a_renewal_is_told_and_the_renewal_tried_again(
    client: rlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with client.lock("x"):
        dog: Any = client._engine().watchdog
        due, failed = list(client._engine().holds), []

        def look_after(_: object) -> Any:
            failed.append(True)
            dog.stopped = True
            yield from ()
            raise RLockError("a refusal of one master")

        dog._schedule.remove(due[0])
        dog._take_due, dog._look_after = (lambda: None if failed else due), look_after
        dog._ended, scheduled = (lambda: None), dog._schedule.next_due()
        run(dog._run_gen())
        assert dog._schedule.next_due() < scheduled
        assert "a refusal of one master" in caplog.text
        dog.stopped = False
