"""Observers: each hold and each place in a queue has one begin and one end; rude ones disturb nobody."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock import events
from rlock.events import Acquired, Event, Lost, NotAcquired, Queued, Released
from rlock.testing import MemoryMasters, memory_client

from ..interrupts import interrupted
from ..lock.conftest import eventually
from ..servers import Fleet
from . import happenings as made
from .ledger import Ledger

NAMES = ("a", "b", "c")


class Crowd:
    """Threads that take and lose locks in all ways there are, on clients that come and go."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.made: list[rlock.Client] = []
        self.clients = [self.client() for _ in range(3)]
        #: One for each acquire.
        self.asked: list[str] = []
        self.raised: list[str] = []
        self.until = time.monotonic() + 4.0

    def client(self) -> rlock.Client:
        self.made.append(rlock.Client(self.urls, ttl=1.0, restart_guard=0))
        return self.made[-1]

    def work(self, seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < self.until:
            try:
                self.once(rng)
            except (rlock.LeaseLostError, rlock.NotHeldError):
                pass
            except rlock.RLockError:
                time.sleep(0.01)  # closed

    def take(self, lock: rlock.RLock, **how: Any) -> bool:
        self.asked.append(lock.name)
        try:
            return lock.acquire(**how)
        except rlock.RLockError:
            self.raised.append(lock.name)
            raise

    def once(self, rng: random.Random) -> None:
        index = rng.randrange(len(self.clients))
        client, name, what = self.clients[index], rng.choice(NAMES), rng.random()
        if what < 0.6:
            how: dict[str, Any] = rng.choice([{}, {"timeout": 0.2}, {"blocking": False}])
            lock = client.lock(name, fair=rng.random() < 0.3)
            if self.take(lock, **how):
                with lock:  # nested: not told
                    time.sleep(rng.choice([0, 0.001, 0.01]))
                lock.release()
        elif what < 0.75:  # lost, before or behind its release
            lock = client.lock(name, ttl=0.15, renew=False)
            if self.take(lock, timeout=0.3):
                time.sleep(rng.choice([0.05, 0.25]))
                lock.release()
        elif what < 0.85:
            client.evict(name)
        elif what < 0.9:  # its thread ends without a release
            lock = client.lock(name, ttl=0.4)
            thread = threading.Thread(target=self.take, args=(lock,), kwargs={"timeout": 0.2})
            thread.start()
            thread.join()
        elif what < 0.93:
            self.clients[index] = self.client()
            client.close()

    def run(self) -> None:
        threads = [threading.Thread(target=self.work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(64)
            assert not thread.is_alive(), "a thread is blocked"
        for client in self.made:
            client.close()


def test_threads_are_told_of_once_among_losses_evictions_closes_and_hand_offs(
    masters3: Fleet, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads of a crowd that end with an error have been counted.
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    crowd = Crowd(masters3.urls)
    crowd.run()
    assert ledger.faults() == []
    told = ledger.ends()
    assert sum(told.values()) == len(crowd.asked)
    assert told["interrupted"] + told["unreachable"] == len(crowd.raised)
    # Or the run would show nothing.
    assert (
        {"expired", "disowned", "dead owner", "fixed lease", "closed"}
        >= {event.cause for event in ledger.of(Lost)}
        >= {"fixed lease", "closed", "dead owner"}
    )
    assert any(event.handed for event in ledger.of(Released)), "no hand-off within the process"
    assert len(ledger.of(Queued)) > 10


#: Where an interrupt is tried on every line. Not in rlock/events.py: see `interrupts.SPARED`.
INTERRUPTED = (
    "lock.py", "engine.py", "hold_table.py", "acquire.py", "attempt.py", "release.py", "withdraw.py",
    "contender.py", "local_queue.py", "subscriptions.py", "notifications.py", "watchdog.py",
)  # fmt: skip


def test_ctrl_c_before_any_line_of_an_acquire_and_a_release_leaves_one_end(ledger: Ledger) -> None:
    wrong: dict[str, list[str]] = {}
    ends: Counter[str] = Counter()
    with memory_client(3, ttl=5.0) as client:
        lock = client.lock("a")
        for at in range(1, 2000):
            ledger.clear()
            with interrupted(at, *INTERRUPTED) as tracer:
                lock.acquire()
                lock.release()
            while lock.hold_count:
                lock.release()
            if faults := ledger.faults():
                wrong[tracer.where] = faults
            told = ledger.ends()
            ends += told
            if sum(told.values()) > 1:
                wrong[tracer.where] = [f"{told} of one acquire"]
            if not tracer.where:
                break
    assert not tracer.where, "it takes longer than that"
    assert at > 100
    assert wrong == {}
    assert {*ends} == {"acquired", "interrupted"}


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
