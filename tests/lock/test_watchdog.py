"""Renewal, being told of a loss, and the events that a client tells of its locks."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

import rlock
from rlock import Client, events
from rlock._sync.engine import Engine
from rlock.events import Event, Lost, RenewalStopped, Renewed
from rlock.testing import lose, memory_client

from ..telemetry.happenings import Ledger
from .conftest import MakeClient, acquired, eventually, in_background, in_thread, threads_only


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("rlock")}


@threads_only
def test_no_thread_is_started_with_a_mutex(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start waits for the new thread, in which a finalizer may want the mutex."""
    started, start = dict[str, bool](), threading.Thread.start
    engine = client._engine()
    mutexes = [engine.holds.mutex, engine.masters._mutex, engine.notifications._mutex]

    def noted(thread: threading.Thread) -> None:
        started[thread.name] = any(mutex._is_owned() for mutex in mutexes)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    lost = threading.Event()
    client.lock("x", on_lost=lambda _: lost.set()).acquire()
    waiter = in_background(lambda: client.lock("x").acquire(timeout=10))
    assert eventually(lambda: "rlock-listener" in threads())
    client.evict("x")
    assert lost.wait(10.0)
    assert waiter.result(10.0)
    assert started.keys() >= {"rlock-dial", "rlock-watchdog", "rlock-listener", "rlock-on-lost"}
    assert not any(started[name] for name in started if name.startswith("rlock"))


@threads_only
def test_a_loss_is_told_behind_one_without_a_thread(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[rlock.LeaseLostError]()
    monkeypatch.setattr(threading.Thread, "start", lambda _: int("no thread"))
    for name in ("x", "y"):
        client.lock(name, on_lost=told.append).acquire()
        client.evict(name)
        assert eventually(lambda: told and told.pop())
        monkeypatch.undo()


@threads_only
def test_no_thread_is_left_when_nothing_is_held(client: Client) -> None:
    with client.lock("x"):
        assert eventually(lambda: "rlock-watchdog" in threads())
    assert eventually(lambda: not threads(), within=3.0), threads()


def test_an_on_lost_that_raises_or_blocks_harms_no_other_lock(
    connect3: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect3(ttl=0.6)
    release, third = threading.Event(), client.lock("c")
    blocks, raises = (lambda _: release.wait(10)), (lambda _: int("no number"))
    for lock in (client.lock("a", on_lost=blocks), client.lock("b", on_lost=raises), third):
        lock.acquire()
    client.evict("a")
    client.evict("b")
    time.sleep(1.5)
    third.check()
    release.set()
    assert eventually(lambda: any("on_lost" in record.message for record in caplog.records))


def test_one_thread_calls_on_lost_for_all_losses_and_ends_behind_the_last() -> None:
    told: list[str] = []
    gate = threading.Event()

    def tell(error: rlock.LeaseLostError) -> None:
        gate.wait(20)
        told.append(error.name)
        raise SystemExit("the other callbacks are called all the same")

    def tellers() -> int:
        return sum(thread.name == "rlock-on-lost" for thread in threading.enumerate())

    with memory_client(3, ttl=1.0) as client:
        losses = [client.lock(f"x{i}", renew=False, on_lost=tell) for i in range(20)]
        for lock in losses:
            assert lock.acquire()
        for lock in losses:
            assert lock.lost.wait(10.0)
        assert eventually(lambda: len(vars(client._engine().watchdog)["_callbacks"]) == 19), "the others wait"
        assert tellers() == 1
        threading.Timer(0.2, gate.set).start()
    assert len(set(told)) == 20, "the end of the client waits for them"
    assert eventually(lambda: not tellers())


@threads_only
@pytest.mark.parametrize("renew", [True, False])
def test_a_holder_thread_that_ends_leaves_no_hold_and_no_engine(connect3: MakeClient, *, renew: bool) -> None:
    client = connect3(ttl=0.4)
    lock = client.lock("x", renew=renew)

    def work() -> None:
        lock.acquire()
        if renew:
            lose(lock)  # it learns of the loss, and does not release

    in_thread(work)
    engine = client._engine()
    assert eventually(lambda: not len(engine.holds) and engine not in Engine.holding)


def test_max_hold_ends_a_hold_that_hangs(client: Client, other: Client) -> None:
    lock = acquired(client, ttl=0.6, max_hold=1.0)
    time.sleep(0.8)
    lock.check()
    began = time.monotonic()
    assert other.lock("x").acquire(timeout=10.0)
    assert time.monotonic() - began < 2.0
    with pytest.raises(rlock.LeaseLostError, match="max_hold"):
        lock.release()


def test_a_new_thread_never_owns_a_dead_threads_lock(connect3: MakeClient) -> None:
    client = connect3(ttl=3.0)
    lock = client.lock("x")
    in_thread(lock.acquire)
    # Thread idents are reused at once; identity must not be.
    for _ in range(20):
        assert in_thread(lambda: (lock.is_owned(), lock.hold_count)) == (False, 0)
        with pytest.raises(rlock.NotHeldError):
            in_thread(lock.release)


def test_renewals_are_told_round_by_round(connect3: MakeClient, ledger: Ledger) -> None:
    client = connect3(1.0)
    with ExitStack() as stack:
        for i in range(10):  # some of them close enough together, however slow the machine is
            stack.enter_context(client.lock(f"job-{i}"))
        assert eventually(lambda: any(event.locks > 1 for event in ledger.of(Renewed)))
        assert eventually(lambda: sum(event.locks for event in ledger.of(Renewed)) >= 20)
    assert {event.failed for event in ledger.of(Renewed)} == {0}


@threads_only
def test_the_lock_of_a_dead_thread_is_told_before_it_is_lost(connect3: MakeClient, ledger: Ledger) -> None:
    client = connect3(1.0)
    in_thread(client.lock("job").acquire)
    assert eventually(lambda: ledger.of(Lost))
    assert [event.cause for event in ledger.of(RenewalStopped, Lost)] == ["dead owner", "dead owner"]


def test_a_log_handler_that_raises_ends_no_renewal(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events.log, "handle", lambda _: 1 / 0)
    client._engine().watchdog._failed(ValueError("of an observer"))


def test_an_observer_that_raises_stops_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def rude(event: Event) -> None:
        seen.append(event)
        raise ValueError("rude")

    end = events.observe(rude)
    with client.lock("job"):
        assert client.lock("job").is_owned()
    end()
    count = len(seen)
    assert count >= 2
    assert "an observer failed" in caplog.text
    with client.lock("job"):
        pass
    assert len(seen) == count, "it was told after its end"
