"""A group: several processes of one contestant on the same masters, and a turn of contention in them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any

from bench.harness.contestants import Contestant
from bench.harness.counters import Counters, cpu_ns, family, sleep_until
from bench.harness.sections import Turn, sections_of
from bench.harness.turns import TTL_MS, a_few
from bench.harness.worker import Worker

#: A machine that starts many runtimes at the same time needs long for each.
OPEN_TIMEOUT_S = 60.0
#: How long a worker waits for one acquire (``bench/contestants/README.md``), and some time for its answer.
PATIENCE_S = 10.0
GRACE_S = 10.0

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
        self.grow(size)

    def __getitem__(self, index: int) -> Worker:
        return self._workers[index]

    def grow(self, size: int) -> None:
        """Start processes until there are `size`, all connected. Raises `Failed`, and then there are none."""
        try:
            new = []
            while len(self._workers) < size:
                self._workers.append(self.contestant.start())
                new.append(self._workers[-1])
            opening = self.contestant.opening(self.masters, self._ttl_ms)
            for worker in new:
                worker.send("open", **opening)
            answers(new, OPEN_TIMEOUT_S)
            self._processes += [family(worker.pid) for worker in new]
        except BaseException:
            self.close()
            raise

    def warm_up(self) -> None:
        """Make connections and load scripts, so that no turn has to."""
        for worker in self._workers:
            worker.send("pairs", lock=f"warm-{next(_numbers)}", count=3)
        for worker in self._workers:
            worker.answer(PATIENCE_S + GRACE_S)

    def cpu_ns(self, size: int | None = None) -> int:
        """CPU time so far of the first `size` processes."""
        return cpu_ns(pid for pids in self._processes[:size] for pid in pids)

    def processes_of(self, index: int) -> list[int]:
        return self._processes[index]

    def contend(
        self, counters: Counters, processes: int, threads: int, hold_us: int, lead_s: float, window_s: float
    ) -> Turn:
        """All threads of the first `processes` processes want one lock; the turn has their sections."""
        began = time.monotonic_ns() + 30_000_000  # until then all have read the request
        opened = began + round(lead_s * 1e9)
        closed = opened + round(window_s * 1e9)
        request = {"lock": f"contended-{next(_numbers)}", "threads": threads, "hold_us": hold_us}
        workers = self._workers[:processes]
        for worker in workers:
            worker.send("contend", **request, start_ns=began, stop_ns=closed)
        sleep_until(opened)
        counters.start()
        cpu = self.cpu_ns(processes)
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
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
