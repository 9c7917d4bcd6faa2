"""Contests: several processes of each contestant lock at the same time, on the same masters, in turns."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.contestants import Contestant
from bench.harness.counters import Counters, cpu_ns, sleep_until
from bench.harness.results import Row
from bench.harness.sections import Turn, row_of, sections_of
from bench.harness.turns import PATIENCE_S, Clock, Runner, a_few, reason, replies

#: Beside the patience of a worker.
GRACE_S = 10.0
#: So many processes may start at the same time.
STARTING = 16
#: The guess for the first turn.
FIRST_DRAIN_S = 0.3
#: A contestant whose last waits outlast the window by more than this has no further turn when time is up.
LONG_DRAIN_S = 3.0
#: A virtual machine takes seconds of CPU time to start, and 200 MB. In a case with more processes than these
#: Java has the same number of threads in fewer processes, and its row says so.
MAX_PROCESSES = {"Java": 8}

_numbers = itertools.count()


def turn_of(
    group: Sequence[Runner], counters: Counters, threads: int, lead_s: float, window_s: float, **load: Any
) -> Turn:
    """All threads of these processes lock at the same time; the turn has their sections.

    They want one lock, or each its own if ``load`` has ``own``.
    """
    names = [f"contended-{next(_numbers)}"] * len(group)
    if load.get("own"):
        names = [f"{runner.key}-{i}-" for i, runner in enumerate(group)]
        for runner, name in zip(group, names, strict=True):  # the locks of some libraries connect
            runner.send("loop", lock=name, threads=threads, count=1, **load)
        replies(group)
    began = time.monotonic_ns() + 30_000_000  # until then all have read the request
    opened = began + round(lead_s * 1e9)
    closed = opened + round(window_s * 1e9)
    for runner, name in zip(group, names, strict=True):
        runner.send("loop", lock=name, threads=threads, start_ns=began, stop_ns=closed, **load)
    pids = [pid for runner in group for pid in runner.pids]
    sleep_until(opened)
    cpu = cpu_ns(pids)
    counters.start()
    sleep_until(closed)
    cpu = cpu_ns(pids) - cpu
    counts = counters.stop()
    sections, errors = sections_of(replies(group, PATIENCE_S + GRACE_S))
    drain_s = (time.monotonic_ns() - closed) / 1e9
    size = len(group), threads
    return Turn(*size, began, opened, closed, sections, errors, drain_s, cpu, counts.requests, counts.scripts)


@dataclass(frozen=True)
class Setup:
    masters: int
    processes: int
    threads: int

    def for_language(self, language: str) -> Setup:
        """The same number of threads, in at most as many processes as the language may have."""
        processes = min(self.processes, MAX_PROCESSES.get(language, self.processes))
        return Setup(self.masters, processes, self.processes * self.threads // processes)

    @property
    def case(self) -> dict[str, Any]:
        return {"masters": self.masters, "processes": self.processes, "threads": self.threads}


class Contests:
    """The processes of contestants on the same masters, in turns; one that fails has its error in the row."""

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
        self.groups: dict[str, list[Runner]] = {}
        #: How long the last turn of each went on after its window, in seconds.
        self._drains: dict[str, float] = {}

    def rows(self, setup: Setup, contestants: Sequence[Contestant], clock: Clock) -> dict[str, Row]:
        """All of these in turn, as long as the clock says."""
        turns: dict[str, list[Turn]] = {contestant.key: [] for contestant in contestants}
        setups = {contestant.key: setup.for_language(contestant.language) for contestant in contestants}
        errors: dict[str, str] = {}
        few = max(1, STARTING // setup.processes)
        for first in range(0, len(contestants), few):
            some = contestants[first : first + few]
            for contestant in some:
                group = self.groups.setdefault(contestant.key, [])
                for _ in range(setups[contestant.key].processes - len(group)):
                    group.append(Runner(contestant, self._urls))
                    group[-1].start()
            for key in [one.key for one in some]:
                with self._failing(key, errors):
                    for runner in self.groups[key]:
                        if not runner.pids:
                            runner.opened()
                    for runner in self.groups[key]:
                        runner.send("loop", lock=f"warm-{next(_numbers)}", count=3)
                    replies(self.groups[key], PATIENCE_S + GRACE_S)
        for round_ in range(self._rounds):
            pending = [key for key in turns if key in self.groups]
            self._rng.shuffle(pending)
            while pending:
                to_come = len(pending) + len(self.groups) * (self._rounds - round_ - 1)
                window = self._window_s(clock.left() / to_come)
                key = pending.pop()
                group, own = self.groups[key], setups[key]
                if round_ and not clock.left() and self._drains.get(key, 0.0) > LONG_DRAIN_S:
                    continue
                with self._failing(key, errors):
                    some_of_it = group[: own.processes], self._counters, own.threads
                    turns[key].append(turn_of(*some_of_it, self._lead_s, window, **self._load))
                    self._drains[key] = turns[key][-1].drain_s
        rows = {key: row_of(turns[key]) for key in turns}
        for key, row in rows.items():
            row.error = errors.get(key) or row.error
            if setups[key] != setup:
                row.differs = f"{setups[key].processes} processes x {setups[key].threads} threads"
        return rows

    def dismiss(self, keys: Collection[str]) -> None:
        for key in keys:
            for runner in self.groups.pop(key, ()):
                runner.close()

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
        drain = sum(self._drains.get(key, FIRST_DRAIN_S) for key in self.groups) / len(self.groups)
        shortest, longest = self._windows_s
        return min(longest, max(shortest, turn_s - self._lead_s - drain - 0.05))

    def __enter__(self) -> Contests:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss(list(self.groups))
        self._counters.close()


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
