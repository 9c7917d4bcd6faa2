"""The process around a client: signal handlers, finalizers, log handlers and threads that end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import rlock
from rlock import events
from rlock._client.local_queue import LocalQueue
from rlock._client.sentinel import Service
from rlock._sync.engine import Engine
from rlock._sync.runtime import Parker, run
from rlock.errors import RLockError
from rlock.model import Code, LeaseState, Vote
from rlock.procedures.contender import Contender
from rlock.rules.holds import OwnerKey
from rlock.rules.lease import Confirmation, Lease, LeaseEvent
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.quorum import Ballot
from rlock.testing import MemoryMasters, lose, memory_client

from ..lock.conftest import eventually


@pytest.fixture
def client() -> Iterator[rlock.Client]:
    with memory_client(1) as made:
        yield made


def test_a_fault_while_the_reply_for_another_lock_is_read_ends_no_acquire(client: rlock.Client) -> None:
    with client.lock("x"):
        calls: Any = client._engine().masters
        read, faults = calls.on_data, [KeyError("a defect")]

        def on_data(*arguments: Any) -> None:
            if faults:
                raise faults.pop()
            read(*arguments)

        calls._connections._traffic = type("Traffic", (), {"on_data": staticmethod(on_data)})()
        for name in ("look_at", "look", "on_connect", "on_drop", "after_data"):
            setattr(calls._connections._traffic, name, getattr(calls, name))
        assert client.lock("y").acquire(timeout=3.0)
        client.lock("y").release()


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


def test_two_locks_with_one_channel_of_redisson_both_hear_of_a_release() -> None:
    masters = MemoryMasters(1)
    here, there = (memory_client(masters=masters, interop="redisson") for _ in range(2))
    woken: dict[str, float] = {}

    def wait(name: str) -> None:
        with here.lock(name):
            woken[name] = time.monotonic()

    with here, there:
        locks = [there.lock("x"), there.lock("{x}")]
        threads = [threading.Thread(target=wait, args=(lock.name,)) for lock in locks]
        for lock, thread in zip(locks, threads, strict=True):
            lock.acquire()
            thread.start()
            assert eventually(partial(here._engine().notifications.is_subscribed, lock.name))
            time.sleep(0.05)
        for lock, thread in zip(locks, threads, strict=True):
            released = time.monotonic()
            lock.release()
            thread.join()
            assert woken[lock.name] - released < 0.5, "it looked again after about a second"


def test_the_end_of_one_registration_of_an_observer_leaves_the_other() -> None:
    seen: list[events.Event] = []
    observer = seen.append
    first, second = events.observe(observer), events.observe(observer)
    try:
        first()
        first()
        events.emit(events.Queued("x", 1))
        assert len(seen) == 1
    finally:
        second()


def test_a_vote_may_come_while_the_votes_are_counted() -> None:
    ballot = Ballot(5)

    class Late(Vote):
        @property
        def guarded(self) -> bool:
            ballot.cast(len(ballot.votes), Vote(Code.FOREIGN))
            return False

    ballot.cast(0, Late(Code.FOREIGN))
    assert ballot.voters == 1


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


def test_dead_sentinels_are_asked_at_the_same_time() -> None:
    daemons: list[bool] = []  # otherwise the end of the process would wait for them

    class Slow(Service):
        def _ask(self, connection: Any) -> Any:
            daemons.append(threading.current_thread().daemon)
            time.sleep(0.2)
            return OSError("timed out")

    one: Any = type("Sentinel", (), {"label": "s", "connection": lambda self, _: None})()
    began = time.monotonic()
    with pytest.raises(ConnectionError, match="no Sentinel"):
        Slow("service", [one] * 5, ConnectionError).get_master_address()
    assert time.monotonic() - began < 0.7
    assert daemons == [True] * 5


def test_a_time_out_in_the_local_queue_is_counted_by_the_clock() -> None:
    """The process may be stopped while it waits."""
    now = [0.0]

    class Stopped(Parker):
        def park(self, timeout: float) -> Any:
            now[0] += 60.0
            yield from ()

    runtime: Any = type("Runtime", (), {"parker": lambda self: Stopped()})()
    queue = LocalQueue(runtime, lambda: now[0], threading.RLock())
    keys, options = (OwnerKey("h/1/a", bool), OwnerKey("h/1/b", bool)), ClientOptions().lease(None)
    first, second = (Contender(key, LockOptions("x", options), 30.0, 0.0) for key in keys)
    assert queue.join(first)
    assert not queue.join(second)
    assert not run(queue.wait(second, 30.0))
    assert now[0] == 60.0


def test_what_a_finalizer_releases_between_two_lines_is_not_held_by_an_acquire(client: rlock.Client) -> None:
    lock, engine = client.lock("x"), client._engine()
    lock.acquire()
    holds: Any = engine.holds
    hold, genuine = engine.held("x"), holds.find

    def find(*words: Any) -> Any:
        holds.find = genuine
        found = genuine(*words)
        lock.release()  # a finalizer, behind the call
        return found

    holds.find = find
    assert lock.acquire()
    assert lock.is_owned()
    assert engine.held("x") is not hold
    lock.release()


@pytest.mark.parametrize("asked_for", ["y", "yz"], ids=["in its poll", "right before its poll"])
def test_a_wait_sees_at_once_what_a_handler_has_read_in_it(asked_for: str) -> None:
    """Otherwise it would poll for a quarter of the request time-out.

    A handler that waits twice before the poll takes the wake-up of its first wait with the second one.
    """
    masters, polled = MemoryMasters(1), list[Any]()

    def handler(*_: object) -> None:
        masters[0].resume()
        for name in asked_for:
            assert client.lock(name, renew=False).acquire()

    before_poll = [handler] if asked_for == "yz" else []

    def poll(timeout: float) -> Any:
        while before_poll:
            before_poll.pop()()
        polled.append(found := genuine(timeout))
        return found

    with memory_client(masters=masters, request_timeout=1.0) as client:
        with client.lock("x"):
            connections: Any = client._engine().masters._connections
        genuine, connections.poll = connections.poll, poll
        before = signal.signal(signal.SIGALRM, handler)
        masters[0].pause()
        try:
            if asked_for == "y":
                signal.setitimer(signal.ITIMER_REAL, 0.02)
            assert client.lock("x").acquire(timeout=5)
        finally:
            signal.signal(signal.SIGALRM, before)
    assert polled
    assert [] not in polled


def test_a_late_wait_reads_although_the_leader_has_not_left_its_poll() -> None:
    """The interpreter kept both from running until their time was over, and runs the late one first."""
    masters = MemoryMasters(1)

    def poll(timeout: float) -> None:
        """As beside a thread that still polls."""
        masters[0].resume()
        connections._clock = lambda: clock() + 9.0

    with memory_client(masters=masters) as client:
        with client.lock("x"):
            connections: Any = client._engine().masters._connections
        connections.poll, clock = poll, connections._clock
        masters[0].pause()
        assert client.lock("x").acquire(blocking=False)
        del connections.poll
        connections._clock = clock


@pytest.mark.parametrize("count", [1, 2])
def test_two_releases_of_which_one_interrupts_the_other_give_back_two_acquires(
    client: rlock.Client, count: int
) -> None:
    lock, engine = client.lock("x"), client._engine()
    for _ in range(count):
        lock.acquire()
    genuine = engine.held

    def held(name: str) -> Any:
        engine.held = genuine  # type: ignore[method-assign]
        found = genuine(name)
        lock.release()  # a finalizer, behind the call
        return found

    engine.held = held  # type: ignore[method-assign]
    if count == 2:
        lock.release()
    else:
        with pytest.raises(rlock.NotHeldError):
            lock.release()
    assert lock.hold_count == 0


def test_a_lost_hold_that_interrupts_a_change_with_its_release_is_told_as_lost(client: rlock.Client) -> None:
    told: list[rlock.LeaseLostError] = []
    lock, engine = client.lock("x", on_lost=told.append), client._engine()
    lock.acquire()
    with engine.holds.mutex:
        engine.held("x").lease.on(LeaseEvent.DISOWNED)
        lock.release()
    assert eventually(lambda: len(told) == 1)
