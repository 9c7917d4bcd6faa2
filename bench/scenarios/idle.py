"""Fifty threads of one process wait for a lock that another process holds: what does the waiting cost?

One contestant after the other, at its default settings, in an order that is drawn: a holder, 50 waiters, some
time to settle, then a window of some seconds. The ratio is to the peer that polls with the fewest requests.

- requests_per_s: commands that reached the masters, all together, whoever sent them (MONITOR: exactly, and
  without what scripts execute inside). The holder's renewals are in it.
- cpu_percent: CPU time of the waiting process, 100 is one core.
- threads, rss_mb: of the waiting process.

The release in the end has to succeed: else the lock was lost, and the waiters did not wait for anything.
"""

from __future__ import annotations

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
SETTLE_S = 1.0
#: Ours send next to nothing: a second would tell nothing. Those that poll tell much in little time. Holder
#: and window together stay under the ttl: not every lock is renewed.
WINDOW_S, LEAST_WINDOW_S = 5.0, 2.0


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    settings = [(masters, chosen(entries, masters, quick, tuned=False)) for masters in (5, 1)]
    waiting = sum(len(taking_part) for _, taking_part in settings)
    for masters, taking_part in settings:
        case = Case({"masters": masters, "waiters": WAITERS})
        case.rows = {entry.key: Row() for entry in taking_part}
        with Masters(masters) as fleet:
            for entry in dice.sample(taking_part, len(taking_part)):
                began = time.monotonic()
                share = clock.left() / waiting
                waiting -= 1
                try:
                    case.rows[entry.key].figures = idle(entry, fleet.urls, began + share, quick)
                except Exception as error:
                    case.rows[entry.key].error = reason(error)
        peers = [entry.key for entry in taking_part if entry.family == "peer"]
        rates = {key: case.rows[key].figures.get("requests_per_s", 0.0) for key in peers}
        if polling := [key for key in peers if rates[key] > WAITERS / 10]:
            case.compare("requests_per_s", [min(polling, key=lambda key: rates[key])])
        yield case


def idle(entry: Entry, masters: Sequence[str], until: float, quick: bool) -> dict[str, float]:
    """Hold, wait, look, release."""
    lock = f"idle-{entry.key}"
    with Crew(entry, masters, 2) as crew:
        holder, waiter = crew[0], crew[1]
        crew.warm_up()
        if not holder.ask("acquire", lock=lock, wait_ms=1000)["acquired"]:
            raise Failed("TimeoutError: not acquired within 1 s, and nobody had it")
        waiter.ask("wait", lock=lock, threads=WAITERS)
        time.sleep(0.2 if quick else SETTLE_S)
        window = WINDOW_S if entry.family == "rlock" else until - time.monotonic() - 0.1
        window = 0.3 if quick else min(WINDOW_S, max(LEAST_WINDOW_S, window))
        pids = crew.processes_of(1)
        cpu, began = crew.cpu_ns() - crew.cpu_ns(1), time.monotonic_ns()
        counts = requests_in(masters, window)
        seconds = (time.monotonic_ns() - began) / 1e9
        cpu = crew.cpu_ns() - crew.cpu_ns(1) - cpu
        told = size(pids)
        holder.ask("release", GRACE_S, lock=lock)
        return {
            "requests_per_s": counts / seconds,
            "cpu_percent": cpu / 1e7 / seconds,
            "threads": told["threads"],
            "rss_mb": told["rss_bytes"] / 1e6,
            "window_s": seconds,
        }
