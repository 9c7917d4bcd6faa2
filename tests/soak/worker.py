"""A process of the soak: threads that contend for locks in every way there is, and note what they see.

Started as ``python -m tests.soak.worker SETUP``, SETUP being the JSON of a `Setup`. SIGTERM: come to an
end; SIGINT: whatever the main thread is at, it gives back what it has; SIGUSR1: say where all threads stand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import itertools
import json
import logging
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import rlock
from rlock.procedures import acquire

from ..contract import tasks
from .journal import Journal, now_ns
from .resource import CELLS, Resource

#: How often a holder looks at its validity.
LOOK_S = 0.02


@dataclass(frozen=True)
class Setup:
    """What a worker is to do."""

    folder: str
    worker: str
    seed: str
    urls: list[str]
    names: list[str]
    ttl: float
    #: ``mixed``: all kinds of holds; ``short``: none that a renewal comes to; ``fixed``: most of them
    #: without renewal and longer than the ttl; ``waiting``: short, and everybody waits as long as it takes;
    #: ``jepsen``: only the counters, thinking for up to the ttl.
    holds: str = "mixed"
    request_timeout: float | None = None
    contenders: int = 2
    sabotage: str = ""
    #: Its client is one of rlock.asyncio, with a task for each thread.
    tasks: bool = False

    def __str__(self) -> str:
        return json.dumps(dataclasses.asdict(self))


class Worker:
    """The threads of one process share a client, a journal and a way to be told to stop."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._journal = Journal(Path(setup.folder) / f"{setup.worker}.journal")
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        kind: Any = tasks.Client if setup.tasks else rlock.Client
        options = {"ttl": setup.ttl, "max_ttl": setup.ttl, "request_timeout": setup.request_timeout}
        self._client: rlock.Client = kind(setup.urls, **options)
        #: Used now and then only: it learns of what happened in between by its next command.
        self._sleeper: rlock.Client = kind(setup.urls, **options)

    def run(self) -> None:
        """Until SIGTERM, and what is under way then."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        threads = [threading.Thread(target=self._count, name="counter")]
        if self._setup.holds != "jepsen":
            for i in range(self._setup.contenders - 1):
                threads.append(threading.Thread(target=self._contend, args=(Random(f"{self._seed}/{i}"),)))
            threads.append(threading.Thread(target=self._idle, args=(Random(f"{self._seed}/idle"),)))
        for thread in threads:
            thread.start()
        dice = Random(f"{self._seed}/main")
        # A background job of a shell that is not interactive has SIGINT ignored, and so have its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while True:
            try:
                self._journal.note("ready", now_ns())
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
        self._journal.note("end", now_ns())

    @property
    def _seed(self) -> str:
        return f"{self._setup.seed}/{self._setup.worker}"

    # -- contenders --------------------------------------------------------------------------------

    def _contend(self, dice: Random) -> None:
        ttl = self._setup.ttl
        while not self._stop.is_set():
            name, how, fair = dice.choice(self._setup.names), dice.random(), dice.random() < 0.5
            timeout = 0.0 if how < 0.1 else dice.uniform(0.0, ttl / 2) if how < 0.4 else -1.0
            if self._setup.holds == "waiting":
                timeout = -1.0
            hold_s, renew = self._plan(dice)
            lock = self._client.lock(name, fair=fair, renew=renew)
            with contextlib.suppress(KeyboardInterrupt):
                self._attempt(lock, timeout, fair, hold_s, dice)
            # Somebody else must get in, too; and an unreachable quorum must not be a busy loop.
            time.sleep(dice.uniform(0.0, 0.005))

    def _idle(self, dice: Random) -> None:
        """Look at a lock, do nothing for a while, and try once."""
        while not self._stop.is_set():
            lock = self._sleeper.lock(dice.choice(self._setup.names), renew=dice.random() < 0.5)
            with contextlib.suppress(rlock.QuorumUnreachableError):
                lock.locked()
            self._stop.wait(dice.uniform(0.0, 3.0) * self._setup.ttl)
            self._attempt(lock, 0.0, False, dice.uniform(0.0, 0.3), dice)

    def _plan(self, dice: Random) -> tuple[float, bool]:
        """How long to hold, and whether to renew."""
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

    def _attempt(self, lock: rlock.RLock, timeout: float, fair: bool, hold_s: float, dice: Random) -> None:
        number, how = next(self._numbers), "interrupted"
        try:
            self._journal.note("ask", now_ns(), number, lock.name, fair, timeout)
            got = lock.acquire(blocking=False) if timeout == 0 else lock.acquire(timeout=timeout)
            if got:
                self._got(lock, number)
                if dice.random() < 0.2:
                    self._nest(lock, number)
                self._hold(lock, number, hold_s, dice)
            how = "got" if got else "contention"
        except rlock.QuorumUnreachableError:
            how = "unreachable"
        except rlock.LeaseLostError:
            how = "lost"
        finally:
            self._give_back(lock, number, how)

    def _got(self, lock: rlock.RLock, number: int) -> None:
        at = now_ns()
        # The owner is for matching with evictions only; no public name tells it without a round trip.
        hold = lock._client._engine().hold(lock.name)
        owner = "" if hold is None else hold.owner
        valid_until, token = at + int(lock.remaining() * 1e9), lock.fencing_token
        self._journal.note("got", at, number, valid_until, token, int(self._setup.ttl * 1e9), owner)

    def _nest(self, lock: rlock.RLock, number: int) -> None:
        again = lock._client.lock(lock.name, fair=True)
        with again:
            self._journal.note("nest", now_ns(), number, again.fencing_token, again.hold_count)

    def _look(self, lock: rlock.RLock, number: int, what: str = "look") -> bool:
        at = now_ns()
        left = lock.remaining()
        self._journal.note(what, at, number, at + int(left * 1e9) if left > 0 else 0)
        return left > 0

    def _hold(self, lock: rlock.RLock, number: int, hold_s: float, dice: Random) -> None:
        """Work; most stop when the lease is lost, some go on as if nothing had been."""
        heedless = dice.random() < 0.1
        until = time.monotonic() + hold_s
        while (left := until - time.monotonic()) > 0 and not self._stop.is_set():
            time.sleep(min(left, LOOK_S))
            if left > LOOK_S and not self._look(lock, number) and not heedless:
                return

    def _give_back(self, lock: rlock.RLock, number: int, how: str) -> None:
        """Whatever comes in between, in the end nothing is held and the journal says so."""
        while True:
            try:
                while lock.hold_count:
                    self._look(lock, number, "leave")
                    try:
                        lock.release()
                        self._journal.note("left", now_ns(), number, "released")
                    except rlock.LeaseLostError:
                        self._journal.note("left", now_ns(), number, "lost")
                self._journal.note("done", now_ns(), number, how)
                return
            except KeyboardInterrupt:
                continue

    # -- the counter -------------------------------------------------------------------------------

    def _count(self) -> None:
        """Add to the cells under their locks, as Jepsen's lock-set does; heedless of losses."""
        dice = Random(f"{self._seed}/counter")
        resource = Resource(Path(self._setup.folder) / "resource.db")
        jepsen = self._setup.holds == "jepsen"
        while not self._stop.is_set():
            cell = dice.choice(CELLS)
            lock = self._client.lock(f"counter:{cell}")
            number, how = next(self._numbers), "contention"
            try:
                self._journal.note("ask", now_ns(), number, lock.name, False, -1.0)
                lock.acquire()
                self._got(lock, number)
                token = lock.fencing_token if cell == "fenced" else None
                ident = f"{self._setup.worker}#{number}"
                last = resource.read(cell, token)
                if jepsen or dice.random() < 0.1:
                    think = dice.uniform(0.0, self._setup.ttl)
                else:
                    think = dice.uniform(0.0, 0.02)
                # Not `_hold`: one that was stopped goes on when it wakes, and writes.
                self._stop.wait(think)
                if last is not None:
                    resource.write(cell, ident, last, token)
                how = "got"
            except rlock.RLockError as error:
                how = type(error).__name__
            finally:
                self._give_back(lock, number, how)
            time.sleep(dice.uniform(0.0, 0.01))
        resource.close()


def commit(sabotage: str) -> None:
    """Break a rule for as long as this process lives; "": none."""
    if not sabotage:
        return
    from ..sabotage import commit  # here: a run that breaks nothing shall not depend on it

    commit(sabotage)
    for name in ("poll_wait", "expiry_wait"):
        # "For ever" is more than the real poll() takes: a day, then.
        if "inf" in getattr(acquire, name).__code__.co_names:
            setattr(acquire, name, lambda *_, **__: 86400.0)


def main() -> None:
    """Run one worker."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    setup = Setup(**json.loads(sys.argv[1]))
    # What the library says goes to the log of this worker: it is read when a check fails.
    logging.basicConfig(format="%(created).6f %(threadName)s %(message)s", level=logging.INFO)
    commit(setup.sabotage)
    Worker(setup).run()


if __name__ == "__main__":
    main()
