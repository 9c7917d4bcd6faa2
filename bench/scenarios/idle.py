"""Fifty threads of one process wait for a lock that another process holds: what does the waiting cost?

At default settings, each contestant on masters of its own: a holder, 50 waiters, some time to settle, then a
window of five slices. Ours, and the peers on one master, wait at the same time, because none does much. Peers
on five masters keep a core busy, so they wait one after another, in an order that is drawn.

- requests_per_s: commands that reached all masters together (MONITOR: exactly, and without the commands
  inside scripts). The holder's renewals are in it.
- cpu_percent: CPU time of the waiting process, 100 is one core.
- threads, rss_mb: of the waiting process.

The release in the end must succeed. Otherwise the lock was lost, and the waiters waited for nothing.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.contests import chosen
from bench.harness.counters import cpu_ns, requests_in, size
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import Clock, Runners, reason
from bench.harness.worker import Failed

NAME = "idle"
TITLE = "Fifty idle waiters"
QUESTION = "What do waiters cost while the lock is held?"

WAITERS = 50
#: For connections, subscriptions and places in queues.
SETTLE_S = 2.0
#: Waiters that send few requests need a longer window than waiters that poll. It ends before the ttl does:
#: not every lock is renewed.
WINDOW_S, LEAST_WINDOW_S = 5.0, 1.5


class Waiting:
    """One contestant: the process of a holder, the process of the waiters, and masters of its own."""

    def __init__(self, contestant: Contestant, masters: int, row: Row, stack: contextlib.ExitStack) -> None:
        self.masters = stack.enter_context(Masters(masters)).urls
        self.row = row
        self._lock = f"idle-{contestant.key}"
        both = [(contestant, self.masters)] * 2
        self._holder, self._waiter = stack.enter_context(Runners(both)).runners
        for runner in (self._holder, self._waiter):
            runner.must("loop", lock=f"warm-{contestant.key}", count=3)

    def begin(self) -> None:
        """From now on one process holds, and fifty threads of the other one wait."""
        if not self._holder.must("acquire", lock=self._lock, wait_ms=1000)["acquired"]:
            raise Failed("TimeoutError: not acquired within 1 s, and nobody had it")
        # Nobody reads the answer: the process is ended while they wait.
        self._waiter.send("loop", lock=self._lock, threads=WAITERS, count=1, wait_ms=-1)

    def _cpu_ns(self) -> int:
        return cpu_ns(self._waiter.pids)

    def open(self) -> None:
        self._opened, self._cpu = time.monotonic_ns(), self._cpu_ns()

    def close(self, requests_per_s: Sequence[float]) -> None:
        """It ends; the figures are in the row."""
        cpu, seconds = self._cpu_ns() - self._cpu, (time.monotonic_ns() - self._opened) / 1e9
        process = size(self._waiter.pids)
        self._holder.must("release", lock=self._lock)
        self.row.add("requests_per_s", requests_per_s)
        self.row.figures |= {
            # Of the whole window: a slice may have no request at all.
            "requests_per_s": statistics.fmean(requests_per_s),
            "cpu_percent": cpu / 1e7 / seconds,
            "threads": process["threads"],
            "rss_mb": process["rss_bytes"] / 1e6,
        }


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    settle_s, least_s, window_s = (0.2, 0.3, 0.3) if quick else (SETTLE_S, LEAST_WINDOW_S, WINDOW_S)
    taking_part = {masters: chosen(contestants, masters, quick, tuned=False) for masters in (5, 1)}
    cases = {masters: Case({"masters": masters, "waiters": WAITERS}) for masters in (5, 1)}
    for masters, case in cases.items():
        case.rows = {contestant.key: Row() for contestant in taking_part[masters]}
    quiet = [(one, n) for n, found in taking_part.items() for one in found if n == 1 or one.family == "rlock"]
    wait(quiet, cases, settle_s, window_s)
    yield cases[1]
    busy = [(contestant, 5) for contestant in taking_part[5] if contestant.family != "rlock"]
    random.Random(NAME).shuffle(busy)
    spent_s = 1.0
    for i, one in enumerate(busy):
        # The contestant before needed about as much time beside its window.
        window = clock.left() / (len(busy) - i) - settle_s - spent_s
        window = min(window_s, max(least_s, window))
        began = time.monotonic()
        wait([one], cases, settle_s, window)
        spent_s = time.monotonic() - began - settle_s - window
    yield cases[5]


def wait(
    contestants: Sequence[tuple[Contestant, int]], cases: dict[int, Case], settle_s: float, window_s: float
) -> None:
    """All of these at the same time. A contestant that fails has the error in its row."""
    with contextlib.ExitStack() as stack:
        waiting: list[Waiting] = []
        for contestant, masters in contestants:
            row = cases[masters].rows[contestant.key]
            with failing(row):
                waiting.append(Waiting(contestant, masters, row, stack))
        for one in waiting:
            with failing(one.row):
                one.begin()
        time.sleep(settle_s)
        going_on = [one for one in waiting if not one.row.error]
        for one in going_on:
            with failing(one.row):
                one.open()
        counts = requests_in({one: one.masters for one in going_on}, window_s, LEAST_ROUNDS)
        for one in going_on:
            with failing(one.row):
                one.close(counts[one])


@contextlib.contextmanager
def failing(row: Row) -> Iterator[None]:
    """An error ends only the block, and stands in the row."""
    try:
        yield
    except Exception as error:
        row.error = row.error or reason(error)
