"""Several processes of one contestant on the same masters, and a turn of contention in them."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from bench.harness.contestant import Contestant, Failed, Unsupported
from bench.harness.field import Entry
from bench.harness.lineup import TTL_MS, a_few
from bench.harness.sections import Turn, sections_of
from bench.harness.watch import Counters, cpu_ns, family, sleep_until

#: A machine that starts many runtimes at the same time needs long for each.
OPEN_TIMEOUT_S = 60.0
#: How long a worker waits for one acquire (``bench/README.md``), and some time for its answer.
PATIENCE_S = 10.0
GRACE_S = 10.0

_numbers = itertools.count()


class Crew:
    """The processes live until `close`, and are idle between turns."""

    def __init__(self, entry: Entry, masters: Sequence[str], size: int, ttl_ms: int = TTL_MS) -> None:
        self.entry = entry
        self._ttl_ms = ttl_ms
        self.masters = list(masters)
        self.version = ""
        self._workers: list[Contestant] = []
        self._processes: list[list[int]] = []
        #: How long the last turn went on after its window, in seconds.
        self.drain_s = 0.3
        self.grow(size)

    def __len__(self) -> int:
        return len(self._workers)

    def __getitem__(self, index: int) -> Contestant:
        return self._workers[index]

    def grow(self, size: int) -> None:
        """Have so many processes, all connected. Raises `Failed`, and then there are none."""
        try:
            new = []
            while len(self._workers) < size:
                self._workers.append(self.entry.start())
                new.append(self._workers[-1])
            opening = self.entry.opening(self.masters, self._ttl_ms)
            for reply in all_of(new, "open", OPEN_TIMEOUT_S, **opening):
                self.version = f"{reply['name']} {reply['version']}, {reply['runtime']}"
            self._processes += [family(worker.pid) for worker in new]
        except BaseException:
            self.close()
            raise

    def warm_up(self) -> None:
        """Connections are made and scripts loaded, so that no turn has to."""
        for worker in self._workers:
            worker.send("pairs", lock=f"warm-{next(_numbers)}", count=3)
        for worker in self._workers:
            worker.answer(PATIENCE_S + GRACE_S)

    def cpu_ns(self, size: int | None = None) -> int:
        """CPU time of the first so many processes so far."""
        return cpu_ns(pid for pids in self._processes[:size] for pid in pids)

    def processes_of(self, index: int) -> list[int]:
        return self._processes[index]

    def contend(
        self, counters: Counters, processes: int, threads: int, hold_us: int, lead_s: float, window_s: float
    ) -> Turn:
        """All threads of the first so many processes want one lock; what they did in the window."""
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
            cpu_ns=cpu, requests=counts.requests, commands=counts.commands, scripts=counts.scripts,
        )  # fmt: skip

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._processes.clear()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def answers(workers: Iterable[Contestant], timeout: float) -> list[dict[str, Any]]:
    """One answer of each. The time is for all of them together: each may be the one that hangs."""
    until = time.monotonic() + timeout
    return [worker.answer(max(0.1, until - time.monotonic())) for worker in workers]


def all_of(workers: Sequence[Contestant], verb: str, timeout: float, **request: Any) -> list[dict[str, Any]]:
    """Ask several the same, at the same time."""
    for worker in workers:
        worker.send(verb, **request)
    return answers(workers, timeout)


def chosen(entries: Sequence[Entry], masters: int, quick: bool, tuned: bool = True) -> list[Entry]:
    """Who takes part where there are so many masters: ours, and the peers that are for one or for many.

    Of a peer with two clients, one for threads and one for tasks, the former: what waits is the same lock.
    """
    ours = [entry for entry in entries if entry.family == "rlock"]
    kind = "one" if masters == 1 else "many"
    peers = [
        entry
        for entry in entries
        if entry.family == "peer" and entry.masters == kind and (tuned or not entry.tuned)
    ]
    keys = {entry.key for entry in peers}
    peers = [entry for entry in peers if entry.key.removesuffix("-asyncio") not in keys - {entry.key}]
    if quick:  # a look at whether it works; each language is seen where there are many masters
        peers = a_few(peers)[: 1 if masters == 1 else None]
    return [*ours, *peers]


def reason(error: Exception) -> str:
    """What a row says of a failure: ``Kind: text``. What a worker answered has that form already."""
    text = str(error)
    if isinstance(error, Unsupported):
        text = f"Unsupported: {text}"
    elif not isinstance(error, Failed):
        text = f"{type(error).__name__}: {text}"
    elif not re.match(r"[\w.]+: ", text):
        text = f"Failed: {text}"
    return " ".join(text.split())[:300]
