"""Fifty threads of one process wait for a lock that another process holds: what does the waiting cost?

At default settings, each contestant on masters of its own: a holder, 50 waiters, some time to settle, then a
window of some seconds. Ours, and the peers on one master, of which none does much, wait at the same time.
Those peers that ask five masters keep a core busy, so one waits after another, in an order that is drawn. The
ratio is to the peer that polls with the fewest requests.

- requests_per_s: commands that reached the masters, all together, whoever sent them (MONITOR: exactly, and
  without what scripts execute inside). The holder's renewals are in it.
- cpu_percent: CPU time of the waiting process, 100 is one core.
- threads, rss_mb: of the waiting process.

The release in the end has to succeed: else the lock was lost, and the waiters did not wait for anything.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence

from bench.harness.contestant import Failed
from bench.harness.crew import GRACE_S, Crew, chosen, reason
from bench.harness.field import Entry
from bench.harness.lineup import Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.watch import requests_in, size

NAME = "idle"
TITLE = "Fifty idle waiters"
QUESTION = "What do waiters cost while the lock is held?"

WAITERS = 50
#: Connections, subscriptions and places in queues are made first.
SETTLE_S = 2.0
#: Those who send next to nothing need a longer window than those who poll. It ends before the ttl does: not
#: every lock is renewed.
WINDOW_S, LEAST_WINDOW_S = 5.0, 1.5


class Waiting:
    """One contestant: the processes of a holder and of those who wait, and masters of its own."""

    def __init__(self, entry: Entry, masters: int, row: Row, stack: contextlib.ExitStack) -> None:
        self.masters = stack.enter_context(Masters(masters)).urls
        self.row = row
        self._lock = f"idle-{entry.key}"
        self._crew = stack.enter_context(Crew(entry, self.masters, 2))
        self._crew.warm_up()

    def begin(self) -> None:
        """From now on one holds, and fifty wait."""
        if not self._crew[0].ask("acquire", lock=self._lock, wait_ms=1000)["acquired"]:
            raise Failed("TimeoutError: not acquired within 1 s, and nobody had it")
        self._crew[1].ask("wait", lock=self._lock, threads=WAITERS)

    def _cpu_ns(self) -> int:
        return self._crew.cpu_ns() - self._crew.cpu_ns(1)

    def open(self) -> None:
        """The window begins."""
        self._opened, self._cpu = time.monotonic_ns(), self._cpu_ns()

    def close(self, requests: int) -> None:
        """It ends; the figures are in the row."""
        cpu, seconds = self._cpu_ns() - self._cpu, (time.monotonic_ns() - self._opened) / 1e9
        told = size(self._crew.processes_of(1))
        self._crew[0].ask("release", GRACE_S, lock=self._lock)
        self.row.figures = {
            "requests_per_s": requests / seconds,
            "cpu_percent": cpu / 1e7 / seconds,
            "threads": told["threads"],
            "rss_mb": told["rss_bytes"] / 1e6,
            "window_s": seconds,
        }


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    settle_s, least_s, window_s = (0.2, 0.3, 0.3) if quick else (SETTLE_S, LEAST_WINDOW_S, WINDOW_S)
    taking_part = {masters: chosen(entries, masters, quick, tuned=False) for masters in (5, 1)}
    cases = {masters: Case({"masters": masters, "waiters": WAITERS}) for masters in (5, 1)}
    for masters, case in cases.items():
        case.rows = {entry.key: Row() for entry in taking_part[masters]}
    quiet = [(e, n) for n, found in taking_part.items() for e in found if n == 1 or e.family == "rlock"]
    wait(quiet, cases, settle_s, window_s)
    compare(cases[1], taking_part[1])
    yield cases[1]
    busy = [(entry, 5) for entry in taking_part[5] if entry.family != "rlock"]
    random.Random(NAME).shuffle(busy)
    spent_s = 1.0
    for i, one in enumerate(busy):
        # What the one before took beside its window is about what this one will take.
        window = clock.left() / (len(busy) - i) - settle_s - spent_s
        window = min(window_s, max(least_s, window))
        began = time.monotonic()
        wait([one], cases, settle_s, window)
        spent_s = time.monotonic() - began - settle_s - window
    compare(cases[5], taking_part[5])
    yield cases[5]


def compare(case: Case, entries: Sequence[Entry]) -> None:
    """With the peer that polls, and sends the fewest requests."""
    peers = [entry.key for entry in entries if entry.family == "peer"]
    rates = {key: case.rows[key].figures.get("requests_per_s", 0.0) for key in peers}
    if polling := [key for key in peers if rates[key] > WAITERS / 10]:
        case.compare("requests_per_s", [min(polling, key=lambda key: rates[key])])


def wait(
    contestants: Sequence[tuple[Entry, int]], cases: dict[int, Case], settle_s: float, window_s: float
) -> None:
    """All of these at the same time. One that fails has the error in its row."""
    with contextlib.ExitStack() as stack:
        waiting: list[Waiting] = []
        for entry, masters in contestants:
            row = cases[masters].rows[entry.key]
            with failing(row):
                waiting.append(Waiting(entry, masters, row, stack))
        for one in waiting:
            with failing(one.row):
                one.begin()
        time.sleep(settle_s)
        going_on = [one for one in waiting if not one.row.error]
        for one in going_on:
            with failing(one.row):
                one.open()
        counts = requests_in({one: one.masters for one in going_on}, window_s)
        for one in going_on:
            with failing(one.row):
                one.close(counts[one])


@contextlib.contextmanager
def failing(row: Row) -> Iterator[None]:
    """An error ends nothing but what is in the block, and is told in the row."""
    try:
        yield
    except Exception as error:
        row.error = row.error or reason(error)
