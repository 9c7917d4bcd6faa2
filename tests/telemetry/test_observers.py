"""Observers that are slow, rude, interrupted or curious: none of it disturbs the lock, or what others see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
from rlock import events
from rlock.events import Acquired, Event, Lost, NotAcquired, Queued, Released
from rlock.testing import MemoryMasters, memory_client

from ..lock.conftest import eventually
from .ledger import Ledger

Observe = Callable[[events.Observer], Any]


@pytest.fixture
def observe() -> Iterator[Observe]:
    ends: list[Callable[[], None]] = []
    yield lambda observer: ends.append(events.observe(observer))
    for end in ends:
        end()


def test_a_loss_is_told_behind_its_acquire_however_long_that_takes(observe: Observe) -> None:
    def slow(event: Event) -> None:
        if isinstance(event, Acquired):
            time.sleep(0.6)

    ledger = Ledger()
    observe(slow)
    observe(ledger)
    with memory_client(3) as client:
        lock = client.lock("job", ttl=0.2, renew=False, on_lost=lambda _: None)
        lock.acquire()
        assert not lock.is_owned()
        with pytest.raises(rlock.LeaseLostError):
            lock.release()
    assert [event.event for event in ledger.of(Acquired, Lost, Released)] == ["acquired", "lost"]


def test_others_go_on_while_an_observer_of_one_thread_blocks(observe: Observe) -> None:
    blocked, done = threading.Event(), list[bool]()

    def block(event: Event) -> None:
        if isinstance(event, Acquired) and event.lock == "slow":
            blocked.wait(20)

    observe(block)
    with memory_client(3, ttl=1.0) as client:

        def take() -> None:
            with client.lock("slow") as lock:
                done.append(lock.is_owned())

        thread = threading.Thread(target=take)
        thread.start()
        assert eventually(lambda: client.status("slow").locked)
        with client.lock("other"):
            assert client.lock("other").is_owned()
        time.sleep(1.2)  # longer than its ttl: it is renewed
        assert client.status("slow").locked
        blocked.set()
        thread.join(20)
    assert done == [True]


def test_an_interrupt_in_one_observer_keeps_the_others_from_nothing(observe: Observe) -> None:
    def interrupted(event: Event) -> None:
        if isinstance(event, armed[0]):
            armed[0] = ()
            raise KeyboardInterrupt

    armed: list[Any] = [()]
    ledger = Ledger()
    observe(interrupted)
    observe(ledger)
    masters = MemoryMasters(3)
    with memory_client(masters=masters) as client, memory_client(masters=masters) as other:
        lock = client.lock("job")
        for kind in (Acquired, Released):
            armed[0] = kind
            with pytest.raises(KeyboardInterrupt), lock:
                pass
            assert not lock.hold_count
            assert other.lock("job").acquire(timeout=1), "it left the lock behind"
            other.lock("job").release()
        with other.lock("job"):
            for refused in (Queued, NotAcquired):
                armed[0] = refused
                with pytest.raises(KeyboardInterrupt):
                    lock.acquire(timeout=0.05)
            assert eventually(lambda: other.status("job").queue_length == 0)
        armed[0] = Lost
        lock.acquire()
        with pytest.raises(KeyboardInterrupt):
            client.close()
        assert other.lock("job").acquire(timeout=1), "an interrupted observer kept close() from releasing it"
        other.lock("job").release()
    assert ledger.faults() == []
