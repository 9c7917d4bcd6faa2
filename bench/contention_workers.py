"""The processes of contention.py: each contends for a lock when it is told to, and reports what it saw.

They live as long as the run and are idle between slices. In each of them one thread (or several) acquires
in a loop while the main thread sleeps, and notes the CPU time and the attempts as the window of the slice
opens and closes. All instants are of CLOCK_MONOTONIC, which the processes of one machine share.
"""

from __future__ import annotations

import functools
import multiprocessing
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple

import redis
import redis.lock

import rlock
from rlock._driver.fanout import Fanout
from rlock._driver.waits import Waits
from rlock.procedures.steps import Ask
from rlock.rules import scripts
from rlock.rules.quorum import Ballot

#: What may contend, and the interval of those that poll.
KINDS: dict[str, float | None] = {"default": None, "fair": None, "sleep=0.1": 0.1, "sleep=0.001": 0.001}
TTL = 10.0
#: How long each section holds the lock.
HOLD_S = 0.001
#: Who waits longer than this gives up, and is counted: the run must end, whatever is broken.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Setup:
    """A configuration: how many contend for what."""

    masters: int
    kind: str
    processes: int
    threads: int = 1

    def __str__(self) -> str:
        many = f"{self.processes}x{self.threads}" if self.threads > 1 else str(self.processes)
        return f"N={self.masters} {self.kind} {many}"

    @property
    def polls(self) -> bool:
        """Whether it is redis-py's lock."""
        return KINDS[self.kind] is not None


@dataclass(frozen=True)
class Slice:
    """A turn of a configuration. Contention is from start to close, what counts from open to close."""

    setup: Setup
    name: str
    start: float
    open: float
    close: float


class Section(NamedTuple):
    """One critical section: before acquire, after acquire, before release."""

    asked: float
    entered: float
    left: float


@dataclass
class Report:
    """What one process saw in one slice; CPU and attempts in its window only."""

    sections: list[Section] = field(default_factory=list)
    cpu_s: float = 0.0
    attempts: int = 0
    gave_up: int = 0
    failure: str = ""


#: Acquire (whether it was granted), release.
Pair = tuple[Callable[[], bool], Callable[[], object]]


def count_attempts() -> Callable[[], int]:
    """Count from now on the rounds of the acquire script, and redis-py's SET NX; how many there were."""
    made = [0]
    asking, do_acquire = Fanout.asking, redis.lock.Lock.do_acquire

    def counting_ask(self: Fanout[Any], ask: Ask) -> Waits[Ballot]:
        made[0] += ask.command.script is scripts.ACQUIRE
        return asking(self, ask)

    def counting_do_acquire(self: redis.lock.Lock, token: str) -> bool:
        made[0] += 1
        return do_acquire(self, token)

    Fanout.asking = counting_ask  # type: ignore[method-assign]
    redis.lock.Lock.do_acquire = counting_do_acquire  # type: ignore[method-assign]
    return lambda: made[0]


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.monotonic()))


class Worker:
    """What one process keeps between slices: its connections."""

    def __init__(self, urls: list[str], counts: list[int]) -> None:
        self._attempts = count_attempts()
        self._clients = {count: rlock.Client(urls[:count], TTL) for count in counts}
        self._redis = redis.Redis.from_url(urls[0])

    def warm_up(self, index: int) -> None:
        """Connect and load the scripts, so that no slice has to."""
        for count in self._clients:
            for kind in KINDS:
                acquire, release = self._pair(Setup(count, kind, 1), f"warm-up-{index}")
                acquire()
                release()

    def perform(self, order: Slice) -> Report:
        report = Report()
        loop = functools.partial(self._contend, order, report)
        threads = [threading.Thread(target=loop, daemon=True) for _ in range(order.setup.threads)]
        for thread in threads:
            thread.start()
        sleep_until(order.open)
        cpu, attempts = cpu_s(), self._attempts()
        sleep_until(order.close)
        report.cpu_s, report.attempts = cpu_s() - cpu, self._attempts() - attempts
        for thread in threads:
            thread.join()
        return report

    def _contend(self, order: Slice, report: Report) -> None:
        try:
            acquire, release = self._pair(order.setup, order.name)
            sleep_until(order.start)
            while (asked := time.monotonic()) < order.close:
                if not acquire():
                    report.gave_up += 1
                    continue
                entered = time.monotonic()
                time.sleep(HOLD_S)
                left = time.monotonic()
                release()
                report.sections.append(Section(asked, entered, left))
        except Exception as error:
            report.failure = f"{type(error).__name__}: {error}"

    def _pair(self, setup: Setup, name: str) -> Pair:
        interval = KINDS[setup.kind]
        if interval is None:
            ours = self._clients[setup.masters].lock(name, fair=setup.kind == "fair")
            return functools.partial(ours.acquire, timeout=PATIENCE_S), ours.release
        theirs = self._redis.lock(name, timeout=TTL, sleep=interval, blocking_timeout=PATIENCE_S)
        return theirs.acquire, theirs.release


def work(index: int, urls: list[str], counts: list[int], pipe: Connection) -> None:
    """The life of one process; it ends when the other end of the pipe does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that gives the orders
    worker = Worker(urls, counts)
    worker.warm_up(index)
    try:
        pipe.send(None)
        while True:
            pipe.send(worker.perform(pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


class Crew:
    """The worker processes; the first so many of them take part in a slice."""

    def __init__(self, size: int, urls: list[str], counts: list[int]) -> None:
        # Not plain fork: each child would keep the pipes of those before it open.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pipes: list[Connection] = []
        self._processes = []
        try:
            for index in range(size):
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(index, urls, counts, theirs), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
            for pipe in self._pipes:
                pipe.recv()
        except BaseException:
            self.close()
            raise

    def begin(self, order: Slice) -> None:
        for pipe in self._pipes[: order.setup.processes]:
            pipe.send(order)

    def reports(self, order: Slice) -> list[Report]:
        reports: list[Report] = [pipe.recv() for pipe in self._pipes[: order.setup.processes]]
        for index, report in enumerate(reports):
            if report.failure:
                raise RuntimeError(f"{order.setup}: worker {index}: {report.failure}")
        return reports

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
