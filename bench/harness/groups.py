"""A group: several processes of one contestant on the same masters; and groups that take turns."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.contestants import Contestant
from bench.harness.counters import Counters, cpu_ns, family, sleep_until
from bench.harness.results import Row
from bench.harness.sections import Turn, row_of, sections_of
from bench.harness.turns import PATIENCE_S, TTL_MS, Clock, a_few, reason
from bench.harness.worker import Worker

#: A machine that starts many runtimes at the same time needs long for each.
OPEN_TIMEOUT_S = 60.0
#: Beside the patience of a worker.
GRACE_S = 10.0
#: So many processes may start at the same time.
STARTING = 16
#: A contestant whose last waits outlast the window by more than this has no further turn when time is up.
LONG_DRAIN_S = 3.0
#: A virtual machine takes seconds of CPU time to start, and 200 MB. In a case with more processes than these
#: Java has the same number of threads in fewer processes, and its row says so.
MAX_PROCESSES = {"Java": 8}

_numbers = itertools.count()


class Group:
    """The processes live until `close`, and are idle between turns."""

    def __init__(
        self, contestant: Contestant, masters: Sequence[str], size: int, ttl_ms: int = TTL_MS
    ) -> None:
        self.contestant = contestant
        self._ttl_ms = ttl_ms
        self.masters = list(masters)
        self._workers: list[Worker] = []
        self._processes: list[list[int]] = []
        #: How long the last turn went on after its window, in seconds.
        self.drain_s = 0.3
        self._size = size

    def __getitem__(self, index: int) -> Worker:
        return self._workers[index]

    def start(self, size: int) -> None:
        """Start processes until there are `size`; `ready` waits for them."""
        opening = self.contestant.opening(self.masters, self._ttl_ms)
        while len(self._workers) < size:
            self._workers.append(self.contestant.start())
            self._workers[-1].send("open", **opening)

    def ready(self) -> None:
        """Wait until all are connected, have made their connections and loaded the scripts."""
        new = self._workers[len(self._processes) :]
        answers(new, OPEN_TIMEOUT_S)
        self._processes += [family(worker.pid) for worker in new]
        for worker in self._workers:
            worker.send("loop", lock=f"warm-{next(_numbers)}", count=3)
        answers(self._workers, PATIENCE_S + GRACE_S)

    def cpu_ns(self, size: int | None = None) -> int:
        """CPU time so far of the first `size` processes."""
        return cpu_ns(pid for pids in self._processes[:size] for pid in pids)

    def processes_of(self, index: int) -> list[int]:
        return self._processes[index]

    def turn(
        self, counters: Counters, processes: int, threads: int, lead_s: float, window_s: float, **load: Any
    ) -> Turn:
        """All threads of the first `processes` processes lock; the turn has their sections.

        They want one lock, or each its own if ``load`` has ``own``.
        """
        workers = self._workers[:processes]
        names = [f"contended-{next(_numbers)}"] * processes
        if load.get("own"):
            names = [f"{self.contestant.key}-{i}-" for i in range(processes)]
            for worker, name in zip(workers, names, strict=True):  # the locks of some libraries connect
                worker.send("loop", lock=name, threads=threads, count=1, **load)
            answers(workers, PATIENCE_S + GRACE_S)
        began = time.monotonic_ns() + 30_000_000  # until then all have read the request
        opened = began + round(lead_s * 1e9)
        closed = opened + round(window_s * 1e9)
        for worker, name in zip(workers, names, strict=True):
            worker.send("loop", lock=name, threads=threads, start_ns=began, stop_ns=closed, **load)
        sleep_until(opened)
        cpu = self.cpu_ns(processes)
        counters.start()
        sleep_until(closed)
        cpu = self.cpu_ns(processes) - cpu
        counts = counters.stop()
        replies = answers(workers, PATIENCE_S + GRACE_S)
        self.drain_s = (time.monotonic_ns() - closed) / 1e9
        sections, errors = sections_of(replies)
        return Turn(
            processes, threads, began, opened, closed, sections, errors,
            cpu_ns=cpu, requests=counts.requests, scripts=counts.scripts,
        )  # fmt: skip

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._processes.clear()

    def __enter__(self) -> Group:
        try:
            self.start(self._size)
            self.ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Setup:
    """The masters, and the processes and threads that lock."""

    masters: int
    processes: int
    threads: int

    def for_language(self, language: str) -> Setup:
        """The same number of threads, in at most as many processes as the language may have."""
        processes = min(self.processes, MAX_PROCESSES.get(language, self.processes))
        return Setup(self.masters, processes, self.processes * self.threads // processes)

    @property
    def case(self) -> dict[str, Any]:
        """The setting of a case."""
        return {"masters": self.masters, "processes": self.processes, "threads": self.threads}


class Contests:
    """Groups on the same masters. A contestant that fails has its error in the row, and no more turns."""

    def __init__(
        self,
        urls: Sequence[str],
        rng: random.Random,
        rounds: int,
        lead_s: float,
        windows_s: tuple[float, float],
        **load: Any,
    ) -> None:
        self._urls = list(urls)
        self._rng, self._rounds = rng, rounds
        self._lead_s, self._windows_s, self._load = lead_s, windows_s, load
        self._counters = Counters(self._urls)
        self.groups: dict[str, Group] = {}

    def rows(self, setup: Setup, contestants: Sequence[Contestant], clock: Clock) -> dict[str, Row]:
        """All of these in turn, as long as the clock says."""
        turns: dict[str, list[Turn]] = {contestant.key: [] for contestant in contestants}
        setups = {contestant.key: setup.for_language(contestant.language) for contestant in contestants}
        errors: dict[str, str] = {}
        few = max(1, STARTING // setup.processes)
        for first in range(0, len(contestants), few):
            some = contestants[first : first + few]
            for contestant in some:
                with self._failing(contestant.key, errors):
                    group = self.groups.setdefault(contestant.key, Group(contestant, self._urls, 0))
                    group.start(setups[contestant.key].processes)
            for key in [one.key for one in some if one.key in self.groups]:
                with self._failing(key, errors):
                    self.groups[key].ready()
        for round_ in range(self._rounds):
            pending = [key for key in turns if key in self.groups]
            self._rng.shuffle(pending)
            while pending:
                to_come = len(pending) + len(self.groups) * (self._rounds - round_ - 1)
                window = self._window_s(clock.left() / to_come)
                key = pending.pop()
                group, own = self.groups[key], setups[key]
                if round_ and not clock.left() and group.drain_s > LONG_DRAIN_S:
                    continue
                with self._failing(key, errors):
                    size = own.processes, own.threads
                    turns[key].append(group.turn(self._counters, *size, self._lead_s, window, **self._load))
        rows = {key: row_of(turns[key]) for key in turns}
        for key, row in rows.items():
            row.error = errors.get(key) or row.error
            if setups[key] != setup:
                row.differs = f"{setups[key].processes} processes x {setups[key].threads} threads"
        return rows

    def dismiss(self, keys: Collection[str]) -> None:
        """End these."""
        for key in keys:
            if group := self.groups.pop(key, None):
                group.close()

    @contextlib.contextmanager
    def _failing(self, key: str, errors: dict[str, str]) -> Iterator[None]:
        """An error of a contestant ends it, and nothing else."""
        try:
            yield
        except Exception as error:
            errors[key] = reason(error)
            self.dismiss({key})

    def _window_s(self, turn_s: float) -> float:
        """The rest of a turn for the window, by the time that other turns needed beside it."""
        drain = sum(group.drain_s for group in self.groups.values()) / len(self.groups)
        shortest, longest = self._windows_s
        return min(longest, max(shortest, turn_s - self._lead_s - drain - 0.05))

    def __enter__(self) -> Contests:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss(list(self.groups))
        self._counters.close()


def answers(workers: Iterable[Worker], timeout: float) -> list[dict[str, Any]]:
    """One answer of each. The time-out is for all of them together: any of them may hang."""
    until = time.monotonic() + timeout
    return [worker.answer(max(0.1, until - time.monotonic())) for worker in workers]


def chosen(
    contestants: Sequence[Contestant], masters: int, quick: bool, tuned: bool = True
) -> list[Contestant]:
    """The contestants of a scenario in which locks are waited for: ours, and the peers for so many masters.

    Of a peer with a client for threads and one for tasks the former: the waiting lock is the same.
    """
    ours = [one for one in contestants if one.family == "rlock"]
    kind = "one" if masters == 1 else "many"
    peers = [
        one
        for one in contestants
        if one.family == "peer" and one.masters == kind and (tuned or not one.tuned)
    ]
    keys = {one.key for one in peers}
    peers = [one for one in peers if one.key.removesuffix("-asyncio") not in keys - {one.key}]
    if quick:  # each language is seen where there are many masters
        peers = a_few(peers)[: 1 if masters == 1 else None]
    return [*ours, *peers]
