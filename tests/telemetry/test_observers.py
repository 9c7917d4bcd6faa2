"""Observers: each hold and each place in a queue has one begin and one end; rude ones disturb nobody."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock import events
from rlock.events import Acquired, Event, Lost, NotAcquired, Queued, Released
from rlock.testing import MemoryMasters, memory_client

from ..lock.conftest import eventually
from . import happenings as made
from .happenings import Ledger

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


def test_there_is_one_of_each_here() -> None:
    known = [kind for kind in vars(events).values() if isinstance(kind, type)]
    kinds = {kind for kind in known if issubclass(kind, events.Event) and not kind.__subclasses__()}
    assert {type(event) for event in made.ALL} == kinds


@pytest.mark.parametrize("event", [e for e in made.ALL if e.level], ids=lambda event: event.event)
def test_a_record_carries_the_fields_of_its_event(
    event: events.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "rlock"):
        events.emit(event)
    (record,) = caplog.records
    assert record.levelno == event.level
    assert record.getMessage() == str(event)
    for name, value in events.fields(event).items():
        assert getattr(record, name) == value
