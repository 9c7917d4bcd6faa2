"""One process holds 10,000 locks: what does it cost to keep them?

Ours on five masters and on one, at the same time, then the peers that renew by themselves, one after another
on one master. The window is longer than the ttl, so that whatever is not renewed is lost in it.

- locks: how many; fewer than 10,000 where it took too long to acquire them.
- acquire_us: for each.
- cpu_percent: CPU time of the process in the window, 100 is one core; cpu_percent_per_1000: by locks.
- threads, rss_mb: of the process in the window. connections: to all masters together.
- requests_per_s, commands_per_s: of all masters together, as in contention.
- keys_lost: keys that the masters had before the window and not after it. Then each lock is released. One
  that was lost is an error, which stands beside the figures.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from time import sleep

from bench.harness.crew import Crew, reason
from bench.harness.field import Entry
from bench.harness.lineup import Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.watch import Counters, size

NAME = "held"
TITLE = "10,000 locks held by one process"
QUESTION = "What does a process pay for keeping the locks that it holds?"

LOCKS = 10_000
CHUNK = 500
TTL_MS, QUICK_TTL_MS = 10_000, 1_500
#: Those that renew by themselves, as their documentation has it.
RENEWED_PEERS = ("python-redis-lock", "redisson-rlock")
#: What of the time is for ours, to acquire.
OURS = 0.3


class Held:
    """One contestant's process, and the locks that it holds on masters of its own."""

    def __init__(
        self, entry: Entry, masters: Sequence[str], ttl_ms: int, stack: contextlib.ExitStack
    ) -> None:
        self._counters = stack.enter_context(Counters(masters))
        self._before = self._connected()
        self._crew = stack.enter_context(Crew(entry, masters, 1, ttl_ms))
        self._crew.warm_up()
        self._prefixes: list[tuple[str, int]] = []
        self.figures: dict[str, float] = {}
        self._key = entry.key

    def _connected(self) -> int:
        return self._counters.sum("clients", "connected_clients")

    def acquire(self, locks: int, clock: Clock) -> None:
        """Hold so many, in chunks, or as many as the clock allows; one chunk at least."""
        began = time.monotonic()
        held = 0
        while held < locks and (not held or clock.left()):
            prefix, count = f"held-{self._key}-{held}-", min(CHUNK, locks - held)
            self._crew[0].ask("hold", prefix=prefix, count=count)
            self._prefixes.append((prefix, count))
            held += count
        self.figures["locks"] = held
        self.figures["acquire_us"] = (time.monotonic() - began) * 1e6 / held

    def open(self) -> None:
        """The window begins."""
        self._keys = self._counters.keys()[0]
        self._cpu, self._opened = self._crew.cpu_ns(), time.monotonic_ns()
        self._counters.start()

    def close(self) -> None:
        """It ends."""
        counts = self._counters.stop()
        cpu = self._crew.cpu_ns() - self._cpu
        seconds = (time.monotonic_ns() - self._opened) / 1e9
        told = size(self._crew.processes_of(0))
        self.figures |= {
            "cpu_percent": cpu / 1e7 / seconds,
            "cpu_percent_per_1000": cpu / 1e7 / seconds / self.figures["locks"] * 1000,
            "threads": told["threads"],
            "rss_mb": told["rss_bytes"] / 1e6,
            "connections": self._connected() - self._before,
            "requests_per_s": counts.requests / seconds,
            "commands_per_s": counts.commands / seconds,
            "window_s": seconds,
            "keys_lost": max(0, self._keys - self._counters.keys()[0]),
        }

    def drop(self) -> None:
        """Release them all."""
        began = time.monotonic()
        for prefix, count in self._prefixes:
            self._crew[0].ask("drop", prefix=prefix, count=count)
        self.figures["release_us"] = (time.monotonic() - began) * 1e6 / self.figures["locks"]


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    locks, ttl_ms = (500, QUICK_TTL_MS) if quick else (LOCKS, TTL_MS)
    window_s = ttl_ms / 1000 * 1.05
    ours = [entry for entry in entries if entry.key == "rlock"]
    peers = [entry for entry in entries if entry.key in RENEWED_PEERS]
    cases = {masters: Case({"masters": masters, "locks": locks, "ttl_ms": ttl_ms}) for masters in (5, 1)}
    for entry in ours:
        own = {masters: cases[masters].rows.setdefault(entry.key, Row()) for masters in cases}
        keep(entry, own, locks, ttl_ms, window_s, Clock(OURS * budget_s))
    yield cases[5]
    for i, entry in enumerate(peers):
        share = clock.left() / (len(peers) - i)
        # What they take to be released is about what they took to be acquired.
        row = cases[1].rows.setdefault(entry.key, Row())
        keep(entry, {1: row}, locks, ttl_ms, window_s, Clock((share - window_s - 2) / 2))
    yield cases[1]


def keep(entry: Entry, rows: dict[int, Row], locks: int, ttl_ms: int, window_s: float, clock: Clock) -> None:
    """Hold, look, release, on so many masters as the rows are for: one window for all of them."""
    with contextlib.ExitStack() as stack:
        holders: dict[int, Held] = {}
        try:
            for masters in rows:
                fleet = stack.enter_context(Masters(masters))
                holders[masters] = Held(entry, fleet.urls, ttl_ms, stack)
            for holder in holders.values():
                holder.acquire(locks, clock)
            for holder in holders.values():
                holder.open()
            sleep(window_s)
            for holder in holders.values():
                holder.close()
        except Exception as error:
            for row in rows.values():
                row.error = reason(error)
            return
        for masters, holder in holders.items():
            row = rows[masters]
            row.figures = holder.figures
            try:
                holder.drop()
            except Exception as error:
                row.error = reason(error)
            if lost := row.figures["keys_lost"]:
                released = f"; then {row.error}" if row.error else ""
                row.error = f"Lost: {lost:.0f} keys went while the locks were held{released}"
