"""The field of the nemesis: masters, worker processes, and the notes on the faults that were done to them."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path
from random import Random
from typing import Any

import redis

import rlock
from rlock.rules import scripts
from rlock.rules.quorum import quorum
from rlock.rules.timing import guard_time
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns
from rlock.testing.contention.order import Harm
from rlock.testing.local.embedded import Master, ServerBinary
from rlock.testing.local.spawn import spawn
from tests.faults.proxy import Proxy
from tests.servers import left, raw

from .worker import Setup

ROOT = Path(__file__).resolve().parents[2]
END_S = 60.0  # a worker ends when its threads have had the lock that they waited for
#: A master's own age is in whole seconds, and a client may have to make a connection first.
GUARD_SLACK_S = 1.5


class PlaceProxy(Proxy):
    """Between a worker in this place and one master; used from another process."""

    def address(self) -> str:
        """The URL for the worker."""
        return self.url

    def delay(self, seconds: float) -> None:
        """Let a request and its reply take so much longer, half of it each way."""
        self.delay_s = seconds


class Front(BaseManager):
    """The process in front of one master, with a proxy for each place of the crew.

    Otherwise the nemesis would hold up what it does not mean to, by the lock of its interpreter.
    """

    proxy: Callable[[str], PlaceProxy]

    def __init__(self, url: str, places: int) -> None:
        super().__init__(ctx=get_context("spawn"))
        self.start(_die_with_parent)
        self.proxies = [self.proxy(url) for _ in range(places)]


Front.register("proxy", PlaceProxy)


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Fleet(contextlib.AbstractContextManager["Fleet"]):
    """Thread-safe if each master is changed under a `claim` only."""

    def __init__(self, count: int, ttl: float, server: ServerBinary, places: int) -> None:
        self.ttl = ttl
        self._ends = contextlib.ExitStack()
        try:
            # The first one forgets nothing, unless its disk is lost.
            kinds = [("--appendonly", "yes", "--appendfsync", "always"), *[()] * (count - 1)]
            self.masters = [self._ends.enter_context(Master(server, args=kind)) for kind in kinds]
            # Before a run nothing is locked: what `rlock init` says, for the max_ttl of the run.
            self.vouch()
            fronts = [Front(url, places) for url in self.urls]
            for front in fronts:
                self._ends.callback(front.shutdown)
            #: By master and by the place of a worker.
            self.proxies: list[list[PlaceProxy]] = [front.proxies for front in fronts]
        except BaseException:
            self._ends.close()
            raise
        self._claims = [threading.Lock() for _ in self.masters]
        #: From which instant (time.monotonic) on the votes of each master count.
        self._grown_at = [0.0 for _ in self.masters]
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self.masters)

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def urls(self) -> list[str]:
        return [master.url for master in self.masters]

    def proxied(self, place: int) -> list[str]:
        """The same masters through the proxies of a place."""
        return [proxies[place].address() for proxies in self.proxies]

    def vouch(self) -> None:
        with rlock.Client(self.urls, ttl=self.ttl, max_ttl=self.ttl) as client:
            wrong = {master: why for master, why in client.init().items() if why}
        if wrong:
            raise RuntimeError(f"not to be vouched for: {wrong}")

    @contextlib.contextmanager
    def claim(self, *masters: int) -> Iterator[list[int]]:
        mine = [i for i in masters if self._claims[i].acquire(blocking=False)]
        try:
            yield mine
        finally:
            for i in mine:
                self._claims[i].release()

    def kill(self, i: int) -> None:
        """It has no vote until `await_guard`."""
        self.masters[i].kill()
        with self._mutex:
            self._grown_at[i] = float("inf")

    def start(self, i: int, *, disk_lost: bool = False) -> None:
        """Start a killed master: empty, but for a durable one that has its disk; young in any case."""
        self.masters[i].restart(empty=disk_lost)
        self.await_guard(i)

    def flush(self, i: int) -> bool:
        self.await_guard(i)
        return self.command(i, "FLUSHALL")

    def command(self, i: int, *words: Any) -> bool:
        """A command of the nemesis; whether it was carried out."""
        with contextlib.suppress(redis.RedisError, OSError), raw(self.urls[i], 1.0) as client:
            client.execute_command(*words)
            return True
        return False

    def await_guard(self, i: int) -> None:
        """A master has lost its memory just now: its votes count when the restart guard is over."""
        with self._mutex:
            self._grown_at[i] = time.monotonic() + guard_time(self.ttl) + GUARD_SLACK_S

    def quorum_at(self) -> float:
        """From when on (time.monotonic) a quorum has votes that count."""
        with self._mutex:
            return sorted(self._grown_at)[quorum(len(self)) - 1]

    def mend(self) -> None:
        """Everything runs and lets everything through."""
        for proxy in itertools.chain(*self.proxies):
            proxy.mend()
        for i, master in enumerate(self.masters):
            if not master.running:
                self.start(i)
            with contextlib.suppress(Exception):
                master.resume()
            self.command(i, "CLIENT", "UNPAUSE")

    def left(self, longest_s: float) -> list[str]:
        """Keys and channels that are not meant to stay, and keys that stay longer than so many seconds."""
        found: set[str] = set()
        for url in self.urls:
            with contextlib.closing(raw(url, 5.0)) as client:
                lives: dict[str, Any] = {key: client.pttl(key) for key in left(url)}
                found |= {f"key {key}" for key, ms in lives.items() if ms == -1 or ms > longest_s * 1000}
                channels: Any = client.pubsub_channels()
                found |= {f"channel {channel}" for channel in channels}
        return sorted(found)


class Crew:
    """``setup(number, place)`` tells what the next worker is to do. Thread-safe.

    A worker that replaces a killed one takes its place, and with it its proxies.
    """

    def __init__(self, count: int, folder: Path, setup: Callable[[int, int], Setup]) -> None:
        self._folder, self._setup = folder, setup
        self._mutex = threading.Lock()
        self._started = 0
        self._alive: list[tuple[Setup, subprocess.Popen[bytes]]] = []
        self.killed: dict[str, int] = {}  # names of those that were killed, with the instant
        for place in range(count):
            self._hire(place)

    @property
    def count(self) -> int:
        return len(self._alive)

    def kill(self, dice: Random) -> str:
        with self._mutex:
            setup, process = self._alive.pop(dice.randrange(len(self._alive)))
            self.killed[setup.worker] = now_ns()
            process.kill()
            process.wait()
            self._hire(setup.place)
        return setup.worker

    def freeze(self, dice: Random, seconds: float, share: float = 0.0) -> str:
        """SIGSTOP one of them, or that share of all, and SIGCONT after so many seconds."""
        with self._mutex:
            chosen = [one for one in self._alive if dice.random() < share]
            if not share:
                chosen = [dice.choice(self._alive)]
            for _, process in chosen:
                process.send_signal(signal.SIGSTOP)
            timer = threading.Timer(seconds, self._wake, ([process for _, process in chosen],))
            timer.daemon = True
            timer.start()
        return f"{', '.join(setup.worker for setup, _ in chosen)} for {seconds:.2f} s"

    def interrupt(self, dice: Random) -> str:
        """SIGINT, but not before a worker has begun: in the middle of an import it would end it."""
        with self._mutex:
            setup, process = dice.choice(self._alive)
            if self._has_begun(setup):
                process.send_signal(signal.SIGINT)
        return setup.worker

    def _has_begun(self, setup: Setup) -> bool:
        """Whether a worker handles signals."""
        with contextlib.suppress(OSError):
            return b'"idle"' in (self._folder / f"{setup.worker}.jsonl").read_bytes()[:4096]
        return False

    def wake(self) -> None:
        """SIGCONT to all."""
        with self._mutex:
            self._wake([process for _, process in self._alive])

    def end(self) -> list[str]:
        """Ask all to end; what was wrong with those that did not, or not well."""
        self.wake()
        wrong = []
        for _, process in self._alive:
            process.terminate()
        until = time.monotonic() + END_S
        for setup, process in self._alive:
            try:
                code = process.wait(max(0.1, until - time.monotonic()))
                if code and not (code == -signal.SIGTERM and not self._has_begun(setup)):
                    wrong.append(f"{setup.worker} ended with {code}: see {setup.worker}.log")
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGUSR1)  # where it stands
                time.sleep(1.0)
                process.kill()
                process.wait()
                wrong.append(f"{setup.worker} did not end: see {setup.worker}.log")
        return wrong

    def abolish(self) -> None:
        """SIGKILL all that are left."""
        with self._mutex:
            for _, process in self._alive:
                process.kill()
                process.wait()
            self._alive.clear()

    def _hire(self, place: int) -> None:
        self._started += 1
        setup = self._setup(self._started, place)
        log = os.open(self._folder / f"{setup.worker}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            # It dies with this process, whatever becomes of this process.
            command = [sys.executable, "-m", "evidence.soak.worker", str(setup)]
            self._alive.append((setup, spawn(command, log, ROOT)))
        finally:
            os.close(log)

    def _wake(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)


@dataclass
class Field:
    """The things that faults act on, and the notes on faults."""

    fleet: Fleet
    crew: Crew
    names: Sequence[str]
    #: The scripts of the workers by their names. With a broken rule a script may have another hash.
    commands: Mapping[str, scripts.Script]
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)

    def note(self, fault: str, told: object) -> None:
        self.done[fault] += 1
        self.log.append(f"{stamp(now_ns())} {fault} {told}")

    def rest(self, seconds: float) -> None:
        self.over.wait(seconds)
