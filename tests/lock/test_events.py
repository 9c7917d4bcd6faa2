"""What a client tells of its locks: once each, without a mutex, and nothing of it disturbs the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rlock import events
from rlock.events import (
    Event,
    Lost,
    MasterAnswers,
    MasterFailed,
    RenewalStopped,
    Renewed,
)

from ..servers import Fleet, raw
from ..telemetry.ledger import Ledger
from .conftest import MakeClient, eventually, threads_only


@pytest.fixture
def told() -> Iterator[Ledger]:
    seen = Ledger()
    end = events.observe(seen)
    yield seen
    end()


def test_renewals_are_told_round_by_round(make_client: MakeClient, masters: Fleet, told: Ledger) -> None:
    client = make_client(masters(3).urls, 1.0)
    with ExitStack() as stack:
        for i in range(10):  # some of them close enough together, however slow the machine is
            stack.enter_context(client.lock(f"job-{i}"))
        assert eventually(lambda: any(event.locks > 1 for event in told.of(Renewed)))
        assert eventually(lambda: sum(event.locks for event in told.of(Renewed)) >= 20)
    assert {event.failed for event in told.of(Renewed)} == {0}


@threads_only
def test_the_lock_of_a_dead_thread_is_told_before_it_is_lost(
    make_client: MakeClient, masters: Fleet, told: Ledger
) -> None:
    client = make_client(masters(3).urls, 1.0)
    thread = threading.Thread(target=client.lock("job").acquire)
    thread.start()
    thread.join()
    assert eventually(lambda: told.of(Lost))
    assert [event.cause for event in told.of(RenewalStopped, Lost)] == ["dead owner", "dead owner"]


@pytest.mark.real_masters
def test_a_master_that_dies_and_comes_back_is_told(
    make_client: MakeClient, fresh_masters: Callable[..., Fleet], told: Ledger
) -> None:
    fleet = fresh_masters(3)
    client = make_client(fleet.urls)
    with client.lock("job"):
        pass
    fleet[1].kill()
    with client.lock("job"):
        assert eventually(lambda: told.of(MasterFailed))
    fleet[1].start()

    def back() -> bool:
        with client.lock("job"):
            return any(event.news for event in told.of(MasterAnswers))

    assert eventually(back, 20)
    label = client.masters[1]
    first = [event.master for event in told.of(MasterAnswers) if not event.news]
    assert set(first) >= {*client.masters}, "whoever counts masters has to know of those that are well"
    assert {event.master for event in told.of(MasterFailed, MasterAnswers) if event.news} == {label}
    assert {event.kind for event in told.of(MasterFailed)} <= {"broken", "down"}


def test_an_observer_that_raises_stops_nothing(
    make_client: MakeClient, masters: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client(masters(3).urls)
    seen: list[Event] = []

    def rude(event: Event) -> None:
        seen.append(event)
        raise ValueError("rude")

    end = events.observe(rude)
    try:
        with client.lock("job"):
            assert client.lock("job").is_owned()
    finally:
        end()
    count = len(seen)
    assert count >= 2
    assert "an observer failed" in caplog.text
    with client.lock("job"):
        pass
    assert len(seen) == count, "it was told after its end"


@pytest.mark.real_masters
def test_a_master_that_answers_and_refuses_is_told_and_logged_once(
    make_client: MakeClient,
    fresh_masters: Callable[..., Fleet],
    told: Ledger,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = fresh_masters(3)
    client = make_client(fleet.urls)
    with client.lock("job"):
        pass
    raw(fleet[1].url).config_set("maxmemory", "1")
    for _ in range(3):
        with client.lock("job"):
            assert eventually(lambda: told.of(MasterFailed))
    label = client.masters[1]
    assert {(event.master, event.kind) for event in told.of(MasterFailed)} == {(label, "error")}
    refusals = [record for record in caplog.records if "gives no vote: OOM" in record.getMessage()]
    assert len(refusals) == 1
    raw(fleet[1].url).config_set("maxmemory", "0")
    del told[:]

    def well() -> bool:
        with client.lock("job"):
            return bool(told.of(MasterAnswers))

    assert eventually(well)
    assert isinstance(told.of(MasterFailed, MasterAnswers)[-1], MasterAnswers)
