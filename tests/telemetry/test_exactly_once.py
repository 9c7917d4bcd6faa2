"""Each hold and each place in a queue has one begin and one end in what is told, whatever happens."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock import events
from rlock.events import Lost, Queued, Released
from rlock.testing import memory_client

from ..interrupts import interrupted
from ..servers import Fleet
from .ledger import Ledger

NAMES = ("a", "b", "c")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    seen = Ledger()
    end = events.observe(seen)
    yield seen
    end()


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
    "lock.py", "engine.py", "lock_events.py", "acquire.py", "attempt.py", "release.py", "contender.py",
    "local_queue.py", "subscriptions.py", "notifications.py", "watchdog.py",
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
