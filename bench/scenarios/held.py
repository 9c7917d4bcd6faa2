"""One process holds 10,000 locks: what does it cost to keep them?

Ours on five masters and on one, at the same time, then the peers that renew by themselves, one after
another on one master. The window has five slices of a renewal interval each (a third of the ttl). It is
longer than the ttl, so that a lock that is not renewed is lost in it.

- locks: fewer than 10,000 where it took too long to acquire them. The row says so.
- cpu_percent: CPU time of the process in a slice, 100 is one core; cpu_percent_per_1000: by locks.
- threads, rss_mb: of the process in the window. connections: to all masters together.
- requests_per_s: of all masters together, as in contention.
- keys_lost: keys that the masters had before the window and not after it. Then each lock is released. A lock
  that was lost is an error, which stands beside the figures.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from time import sleep

from bench.harness.contestants import Contestant
from bench.harness.counters import Counters, cpu_ns, size
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import Clock, Runners, reason

NAME = "held"
TITLE = "10,000 locks held by one process"
QUESTION = "What does a process pay for keeping the locks that it holds?"

LOCKS = 10_000
CHUNK = 500
#: For one chunk.
HOLD_S = 60.0
TTL_MS, QUICK_TTL_MS = 10_000, 1_500
#: A third of the ttl is the renewal interval of all contestants here.
RENEWALS_IN_A_TTL = 3
#: Peers that renew by themselves, as their documentation has it.
RENEWED_PEERS = ("python-redis-lock", "redisson-rlock")
#: The part of the budget in which ours acquire.
OURS = 0.25


class Held:
    """One contestant's process, and the locks that it holds on masters of its own."""

    def __init__(
        self, contestant: Contestant, masters: Sequence[str], ttl_ms: int, stack: contextlib.ExitStack
    ) -> None:
        self._counters = stack.enter_context(Counters(masters))
        self._before = self._connected()
        (self._runner,) = stack.enter_context(Runners([(contestant, masters)], ttl_ms)).runners
        self._runner.must("loop", lock="warm", count=3)
        self._prefixes: list[tuple[str, int]] = []
        self.figures: dict[str, float] = {}
        self.cpu_percent: list[float] = []
        self._key = contestant.key

    def _connected(self) -> int:
        return self._counters.sum("clients", "connected_clients")

    def acquire(self, locks: int, clock: Clock) -> None:
        """Hold `locks` locks, in chunks, or as many as the clock allows; one chunk at least."""
        held = 0
        while held < locks and (not held or clock.left()):
            prefix, count = f"held-{self._key}-{held}-", min(CHUNK, locks - held)
            self._runner.must("hold", HOLD_S, prefix=prefix, count=count)
            self._prefixes.append((prefix, count))
            held += count
        self.figures["locks"] = held

    def open(self) -> None:
        self._keys = self._counters.keys()
        self._opened = time.monotonic_ns()
        self._cpu = [(self._opened, cpu_ns(self._runner.pids))]
        self._counters.start()

    def end_slice(self) -> None:
        """One renewal interval of the window is over."""
        self._cpu.append((time.monotonic_ns(), cpu_ns(self._runner.pids)))

    def close(self) -> None:
        counts = self._counters.stop()
        seconds = (time.monotonic_ns() - self._opened) / 1e9
        process = size(self._runner.pids)
        self.cpu_percent = [100 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(self._cpu)]
        per_lock = statistics.median(self.cpu_percent) / self.figures["locks"]
        self.figures |= {
            "cpu_percent_per_1000": per_lock * 1000,
            "threads": process["threads"],
            "rss_mb": process["rss_bytes"] / 1e6,
            "connections": self._connected() - self._before,
            "requests_per_s": counts.requests / seconds,
            "keys_lost": max(0, self._keys - self._counters.keys()),
        }

    def drop(self) -> None:
        for prefix, count in self._prefixes:
            self._runner.must("drop", HOLD_S, prefix=prefix, count=count)


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    locks, ttl_ms = (500, QUICK_TTL_MS) if quick else (LOCKS, TTL_MS)
    slice_s = ttl_ms / 1000 / RENEWALS_IN_A_TTL
    window_s = slice_s * LEAST_ROUNDS
    ours = [contestant for contestant in contestants if contestant.key == "rlock"]
    peers = [contestant for contestant in contestants if contestant.key in RENEWED_PEERS]
    cases = {masters: Case({"masters": masters, "locks": locks, "ttl_ms": ttl_ms}) for masters in (5, 1)}
    for contestant in ours:
        own = {masters: cases[masters].rows.setdefault(contestant.key, Row()) for masters in cases}
        keep(contestant, own, locks, ttl_ms, slice_s, Clock(OURS * budget_s))
    yield cases[5]
    for i, contestant in enumerate(peers):
        share = clock.left() / (len(peers) - i)
        # A release takes about as long as an acquire.
        row = cases[1].rows.setdefault(contestant.key, Row())
        keep(contestant, {1: row}, locks, ttl_ms, slice_s, Clock((share - window_s - 2) / 2))
    yield cases[1]


def keep(
    contestant: Contestant, rows: dict[int, Row], locks: int, ttl_ms: int, slice_s: float, clock: Clock
) -> None:
    """Hold, measure, release, on the number of masters of each row: one window for all of them."""
    with contextlib.ExitStack() as stack:
        holders: dict[int, Held] = {}
        try:
            for masters in rows:
                fleet = stack.enter_context(Masters(masters))
                holders[masters] = Held(contestant, fleet.urls, ttl_ms, stack)
            for holder in holders.values():
                holder.acquire(locks, clock)
            for holder in holders.values():
                holder.open()
            for _ in range(LEAST_ROUNDS):
                sleep(slice_s)
                for holder in holders.values():
                    holder.end_slice()
            for holder in holders.values():
                holder.close()
        except Exception as error:
            for row in rows.values():
                row.error = reason(error)
            return
        for masters, holder in holders.items():
            row = rows[masters]
            row.add("cpu_percent", holder.cpu_percent)
            if (held := holder.figures["locks"]) < locks:
                row.differs = f"{held:,.0f} locks"
            try:
                holder.drop()
            except Exception as error:
                row.error = reason(error)
            row.figures |= holder.figures
            if lost := row.figures["keys_lost"]:
                released = f"; then {row.error}" if row.error else ""
                row.error = f"Lost: {lost:.0f} keys went while the locks were held{released}"
