"""A process of the soak: threads that contend for locks in every way there is.

Started as ``python -m evidence.soak.worker SETUP``, SETUP being the JSON of a `Setup`. SIGTERM: come to an
end; SIGINT: whatever the main thread is at, it gives back what it has; SIGUSR1: say where all threads stand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import rlock
from rlock import clock
from rlock.procedures.contender import Contender
from rlock.rules.waiting import Step
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.journal import Journal
from rlock.testing.contention.pulse import feel_pulse
from rlock.testing.contention.recorder import Hold, Recorder
from tests.lock import tasks

#: The counters that locks protect: one checks the fencing token, the other one does not.
COUNTERS = ("plain", "fenced")


@dataclass(frozen=True)
class Setup:
    folder: str
    worker: str
    seed: str
    place: int
    urls: list[str]
    names: Sequence[str]
    ttl: float
    #: ``mixed``: all kinds of holds; ``fixed``: most of them without renewal and longer than the ttl;
    #: ``jepsen``: only the counters, thinking for up to the ttl.
    holds: str = "mixed"
    sabotage: str = ""
    order: str = "mixed"
    #: The share of attempts that ask for a reader. Then a fifth of the writers becomes one.
    readers: float = 0.0
    rate: float = 1.0  # how many seconds of the clock of its clients pass in a second
    tasks: bool = False  # its client is one of rlock.asyncio, with a task for each thread

    def __str__(self) -> str:
        return json.dumps(dataclasses.asdict(self))


class Worker:
    """The threads of one process share a client, a journal and a way to be told to stop."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._journal = Journal(Path(setup.folder), setup.worker)
        self._recorder = Recorder(self._journal, setup.ttl, setup.rate)
        _note_arrivals(self._recorder)
        self._stop = threading.Event()
        kind: Any = tasks.Client if setup.tasks else rlock.Client
        options = {"ttl": setup.ttl, "max_ttl": setup.ttl}
        self._client: rlock.Client = kind(setup.urls, **options)
        #: Used now and then only: it learns of what happened in between by its next command.
        self._sleeper: rlock.Client = kind(setup.urls, **options)

    def run(self) -> None:
        """Until SIGTERM, and what is under way then."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        pulse = threading.Thread(target=feel_pulse, args=(self._stalled, threading.Event()), daemon=True)
        pulse.start()
        threads = [threading.Thread(target=self._count, name="counter")]
        if self._setup.holds != "jepsen":
            threads.append(threading.Thread(target=self._contend, args=(Random(f"{self._seed}/0"),)))
            threads.append(threading.Thread(target=self._idle, args=(Random(f"{self._seed}/idle"),)))
        for thread in threads:
            thread.start()
        dice = Random(f"{self._seed}/main")
        # A background job of a shell that is not interactive has SIGINT ignored, and so have its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while True:
            try:
                self._journal.note("idle", order=0)
                if self._setup.holds != "jepsen":
                    self._contend(dice)
                while not self._stop.wait(0.2):
                    pass
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                break
            except KeyboardInterrupt:
                continue
        for thread in threads:
            thread.join()
        self._client.close()
        self._sleeper.close()
        self._journal.note("end")

    def _stalled(self, begin: int, end: int) -> None:
        self._journal.note("stalled", end, since=begin)

    @property
    def _seed(self) -> str:
        return f"{self._setup.seed}/{self._setup.worker}"

    def _contend(self, dice: Random) -> None:
        ttl = self._setup.ttl
        while not self._stop.is_set():
            name, how, order = dice.choice(self._setup.names), dice.random(), self._setup.order
            fair = order == "fair" or (order == "mixed" and dice.random() < 0.5)
            timeout = 0.0 if how < 0.1 else dice.uniform(0.0, ttl / 2) if how < 0.4 else -1.0
            hold_s, renew = self._plan(dice)
            lock: Any = self._client.lock(name, fair=fair, renew=renew)
            if dice.random() < self._setup.readers:
                lock = self._client.read_write_lock(name, renew=renew).reader
            with contextlib.suppress(KeyboardInterrupt):
                self._recorder.attempt(lock, self._section(hold_s, dice), timeout=timeout, fair=fair)
            # Others must get in, too; and an unreachable quorum must not be a busy loop.
            time.sleep(dice.uniform(0.0, 0.005))

    def _idle(self, dice: Random) -> None:
        """Look at a lock, do nothing for a while, and try once."""
        while not self._stop.is_set():
            name, renew = dice.choice(self._setup.names), dice.random() < 0.5
            lock = self._sleeper.lock(name, fair=self._setup.order == "fair", renew=renew)
            with contextlib.suppress(rlock.QuorumUnreachableError):
                lock.locked()
            self._stop.wait(dice.uniform(0.0, 3.0) * self._setup.ttl)
            self._recorder.attempt(lock, self._section(dice.uniform(0.0, 0.3), dice), timeout=0.0)

    def _plan(self, dice: Random) -> tuple[float, bool]:
        ttl, kind, chance = self._setup.ttl, self._setup.holds, dice.random()
        if kind == "fixed" and chance < 0.8:
            return dice.uniform(1.1, 1.4) * ttl, False
        if kind == "mixed":
            # Long holds as rare as they are long, or nothing else would happen.
            if chance < 0.08 / ttl:
                return dice.uniform(1.2, 2.0) * ttl, True
            if chance < 0.12 / ttl:
                return dice.uniform(0.5, 1.3) * ttl, False
            if chance < 0.2:
                return dice.uniform(0.0, 0.3), True
        return dice.uniform(0.0, 0.01), True

    def _section(self, hold_s: float, dice: Random) -> Callable[[Hold], None]:
        """The work under a lock. A tenth of the holders go on after a loss as if nothing had happened."""

        def work(hold: Hold) -> None:
            again = hold.lock._client.read_write_lock(hold.lock.name)
            if dice.random() < 0.2:
                with hold.nested(again.reader if hold.lock._options.shared else again.writer):
                    pass
            hold.keep(hold_s, lambda: not self._stop.is_set(), heedless=dice.random() < 0.1)
            if self._setup.readers and not hold.lock._options.shared and dice.random() < 0.2:
                self._recorder.downgrade(hold, again.reader, work)

        return work

    def _count(self) -> None:
        """Raise the counters under their locks, as Jepsen's lock-set does, without a look at losses."""
        dice = Random(f"{self._seed}/counter")
        folder = Path(self._setup.folder)
        counters = {name: Counter(folder / f"counter-{name}") for name in COUNTERS}
        while not self._stop.is_set():
            name = dice.choice(COUNTERS)
            work = partial(self._raise, counters[name], name == "fenced", dice)
            lock = self._client.lock(f"counter:{name}", fair=self._setup.order == "fair")
            self._recorder.attempt(lock, work)
            time.sleep(dice.uniform(0.0, 0.01))

    def _raise(self, counter: Counter, fenced: bool, dice: Random, hold: Hold) -> None:
        token = hold.lock.fencing_token if fenced else None
        value = counter.read(token)
        long = self._setup.holds == "jepsen" or dice.random() < 0.1
        # Not `Hold.keep`: a worker that was stopped goes on when it wakes, and writes.
        self._stop.wait(dice.uniform(0.0, self._setup.ttl if long else 0.02))
        if value is not None:
            counter.write(value + 1, token)


def _note_arrivals(recorder: Recorder) -> None:
    """A waiter has arrived when its first queueing round is complete (docs/how-it-works.md)."""
    genuine = Contender.step

    def step(self: Contender, what: Step) -> None:
        genuine(self, what)
        if what is Step.TICKET:
            recorder.arrived(self.key.label)

    setattr(Contender, "step", step)  # noqa: B010  # mypy: a method


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    setup = Setup(**json.loads(sys.argv[1]))
    # Messages of the library go to the log of this worker, for the case that a check fails.
    logging.basicConfig(format="%(created).6f %(threadName)s %(message)s", level=logging.INFO)
    if setup.sabotage:
        from ..bugs import commit  # here: a run that breaks nothing shall not depend on it

        commit(setup.sabotage)
    # The clients of this process have a clock of their own, with another beginning and another rate.
    true, began, shown = clock.now, clock.now(), os.getpid() * 1000.0
    clock.now = lambda: shown + (true() - began) * setup.rate
    Worker(setup).run()


if __name__ == "__main__":
    main()
