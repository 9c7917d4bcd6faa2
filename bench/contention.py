"""Contended sections: many processes, one lock, each section holds it for 1 ms.

    python bench/contention.py [--seconds 6] [--quick] [--only WORD ...] [--json FILE]

2, 8 and 24 processes, 1, 3 and 5 embedded masters, default and fair mode, and redis-py's Lock (polling, on
one master) beside them. Everything runs interleaved: a slice of each configuration in turn, the order drawn
anew in every round, so that noise of the machine hits all alike. What to read are the ratios.

Each worker loops: acquire, sleep 1 ms, release, at once again. A slice begins with a lead-in that counts for
the overlaps only; all other figures are of the window behind it.

- sect/s: sections entered in a second; changes/s: those of them that followed another worker's section. The
  difference is a worker that takes the lock again while others wait.
- attempts: rounds of the acquire script for each section, whether granted, refused or a claim of what was
  handed over; for redis-py, SET NX.
- EVALSHA: commands to all masters for each section (INFO commandstats: EVALSHA; for redis-py SET as well),
  and the same divided by N. Commands that carry no script (SUBSCRIBE) are not in it.
- CPU ms: user and system time of all workers for each section, the waiting included; not of the masters.
- hand-off: from before release() in one process to the return of acquire() in the next owner, another
  process that was waiting already; median and 99th percentile of all slices.
- Jain: fairness index of sections over workers in a slice, mean of the slices. 1: all got the same.
- longest: the longest wait, cut off at the end of its slice.
- overlaps: sections that began before the one before was left. Must be 0.

Then the cost of 200 waiters that only wait, for a holder in another process, on five masters: CPU time of the
waiting processes and EVALSHA at all masters, each for a second. The holder's renewals, one command to each
master every third of its ttl, are in the latter. Then the holder releases, and each waiter enters once: how
long until the last one has left.

Exit status 1 if two sections overlapped, somebody waited for half a minute, or a budget (the last lines) is
missed. --quick is a smoke run: fewer configurations, one short slice of each.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import redis
from contention_figures import Figures, overlaps
from contention_workers import KINDS, PATIENCE_S, TTL, Crew, Report, Section, Setup, Slice, sleep_until

import rlock
from rlock.program.local.embedded import Masters

PROCESSES = (2, 8, 24)
COUNTS = (1, 3, 5)
CONTESTS = [
    Setup(masters, kind, processes)
    for masters in COUNTS
    for kind, interval in KINDS.items()
    for processes in PROCESSES
    if interval is None or masters == 1
]
IDLE = [Setup(5, kind, processes, 200 // processes) for processes in (1, 8) for kind in ("default", "fair")]

MAX_ATTEMPTS = 2.1
MAX_CPU_GROWTH = 1.5
MAX_HAND_OFF_MS = 1.0
MIN_JAIN = 0.99


@dataclass(frozen=True)
class Pace:
    """How long things take."""

    seconds: float  # windows of each configuration, in total
    window: float
    lead: float
    idle: float
    idle_lead: float


USUAL = Pace(seconds=6.0, window=1.0, lead=0.5, idle=10.0, idle_lead=2.0)
QUICK = Pace(seconds=0.5, window=0.5, lead=0.15, idle=0.4, idle_lead=0.4)


class Bench:
    """Masters, workers, and the connections on which the masters are asked for their counts."""

    def __init__(self, masters: Masters, crew: Crew) -> None:
        self._urls = masters.urls
        self._crew = crew
        self._asking = [redis.Redis.from_url(url) for url in masters.urls]
        self._numbers = count()

    def slice(self, setup: Setup, lead: float, window: float) -> tuple[Slice, list[Report], int]:
        """One turn of a configuration; with the commands in its window."""
        start = time.monotonic() + 0.02
        name = f"contended-{next(self._numbers)}"
        order = Slice(setup, name, start, start + lead, start + lead + window)
        self._crew.begin(order)
        commands = self._commands_in(order)
        return order, self._crew.reports(order), commands

    def idle(self, setup: Setup, lead: float, window: float) -> dict[str, Any]:
        """What waiters cost while they only wait."""
        start = time.monotonic() + 0.1
        name = f"idle-{next(self._numbers)}"
        order = Slice(setup, name, start, start + lead, start + lead + window)
        with rlock.Client(self._urls[: setup.masters], TTL) as client:
            asked = time.monotonic()
            with client.lock(name):
                entered = time.monotonic()
                self._crew.begin(order)
                commands = self._commands_in(order)
                time.sleep(0.1)  # the workers look at their clocks first
                left = time.monotonic()
            reports = self._crew.reports(order)
        sections = [Section(asked, entered, left), *(s for report in reports for s in report.sections)]
        waiters = setup.processes * setup.threads
        return {
            "configuration": str(setup),
            "waiters": waiters,
            "seconds": window,
            "cpu_ms_per_s": sum(report.cpu_s for report in reports) * 1e3 / window,
            "commands_per_s": commands / window,
            "commands_per_waiter_and_s": commands / window / waiters,
            "drained_in_ms": (max(section.left for section in sections) - left) * 1e3,
            "gave_up": sum(report.gave_up for report in reports),
            "overlaps": overlaps(sections),
        }

    def _commands_in(self, order: Slice) -> int:
        sleep_until(order.open)
        before = self._commands(order.setup)
        sleep_until(order.close)
        return self._commands(order.setup) - before

    def _commands(self, setup: Setup) -> int:
        total = 0
        for master in self._asking[: setup.masters]:
            stats: dict[str, Any] = master.info("commandstats")
            for name in ("evalsha", "set") if setup.polls else ("evalsha",):
                total += stats.get(f"cmdstat_{name}", {}).get("calls", 0)
        return total


def contend(bench: Bench, setups: Sequence[Setup], pace: Pace) -> list[Figures]:
    figures = {setup: Figures(setup) for setup in setups}
    for _ in range(max(1, round(pace.seconds / pace.window))):
        for setup in random.sample(setups, len(setups)):
            figures[setup].add(*bench.slice(setup, pace.lead, pace.window))
    return list(figures.values())


HEAD = f"{'':<20}{'sect/s':>7}{'changes/s':>10}{'attempts':>9}{'EVALSHA':>8}{'/N':>6}{'CPU ms':>7}"
HEAD += f"{'hand-off':>9}{'p99 ms':>8}{'Jain':>7}{'longest':>9}{'overlaps':>9}"


def print_contests(results: Sequence[Figures]) -> None:
    if results:
        print(f"\n{HEAD}")
    for figures in results:
        told = figures.summary()
        hand_off = f"{told['hand_off_p50_ms']:9.3f}{told['hand_off_p99_ms']:8.2f}"
        if not figures.hand_offs:
            hand_off = f"{'-':>9}{'-':>8}"
        print(
            f"{figures.setup!s:<20}{told['sections_per_s']:7.0f}{told['changes_per_s']:10.0f}"
            f"{told['attempts_per_section']:9.2f}{told['commands_per_section']:8.1f}"
            f"{told['commands_per_section_and_master']:6.2f}{told['cpu_ms_per_section']:7.2f}"
            f"{hand_off}{told['jain']:7.3f}"
            f"{told['longest_wait_ms']:9.1f}{told['overlaps']:9d}"
        )


def print_ratios(results: Sequence[Figures]) -> None:
    """Against those that poll, at the same number of processes on one master."""
    by_setup = {figures.setup: figures for figures in results}
    lines = []
    for setup, ours in by_setup.items():
        if setup.masters != 1 or setup.polls:
            continue
        for kind in (kind for kind, interval in KINDS.items() if interval is not None):
            theirs = by_setup.get(Setup(1, kind, setup.processes))
            if theirs is not None and theirs.sections and theirs.changes and ours.seconds:
                sections, changes = ours.rate / theirs.rate, ours.changes / theirs.changes
                lines.append(f"  {setup!s:<18} against {kind:<12}{sections:10.2f} x{changes:12.1f} x")
    if lines:
        print(f"\nrlock against redis-py's Lock, N = 1: {'sect/s':>15}{'changes/s':>14}")
        print("\n".join(lines))


def print_idle(results: Sequence[dict[str, Any]]) -> None:
    if results:
        head = f"{'CPU ms/s':>12}{'EVALSHA/s':>11}{'per waiter':>12}{'drained ms':>12}{'gave up':>9}"
        print(f"\n200 waiters that only wait{head}")
    for told in results:
        print(
            f"  {told['configuration']:<24}{told['cpu_ms_per_s']:12.1f}{told['commands_per_s']:11.1f}"
            f"{told['commands_per_waiter_and_s']:12.2f}{told['drained_in_ms']:12.0f}{told['gave_up']:9d}"
        )


@dataclass(frozen=True)
class Budget:
    """One limit, and the figure that has to keep it."""

    text: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        verdict, sign = "pass" if self.kept else "FAIL", ">=" if self.at_least else "<="
        return f"  {verdict}  {self.text:<54}{self.value:8.3f} ({sign} {self.limit:g})"


def budgets(results: Sequence[Figures], waits: Sequence[dict[str, Any]]) -> Iterator[Budget]:
    """The limits of the design for whatever was measured."""
    told = {figures.setup: figures.summary() for figures in results}
    ours = {setup: row for setup, row in told.items() if not setup.polls}
    everything = [*told.values(), *waits]
    yield Budget("overlaps, all", sum(row["overlaps"] for row in everything), 0)
    starved = sum(row["gave_up"] for row in [*ours.values(), *waits])
    yield Budget(f"acquires given up after {PATIENCE_S:g} s", starved, 0)
    for setup, row in ours.items():
        yield Budget(f"attempts per section, {setup}", row["attempts_per_section"], MAX_ATTEMPTS)
    for setup, row in ours.items():
        fewest = Setup(setup.masters, setup.kind, min(PROCESSES))
        if setup.processes == max(PROCESSES) and fewest in ours:
            growth = row["cpu_ms_per_section"] / (ours[fewest]["cpu_ms_per_section"] or 1e-9)
            yield Budget(f"CPU per section, {setup} against {fewest.processes}", growth, MAX_CPU_GROWTH)
    for setup, row in ours.items():
        if setup.masters == max(COUNTS):
            yield Budget(f"hand-off median in ms, {setup}", row["hand_off_p50_ms"], MAX_HAND_OFF_MS)
    for setup, row in ours.items():
        if setup.kind == "fair":
            yield Budget(f"Jain, {setup}", row["jain"], MIN_JAIN, at_least=True)


def chosen(setups: Sequence[Setup], only: Sequence[str]) -> list[Setup]:
    """Those whose line has all these words; ``idle`` is a word of those that only wait."""
    return [
        setup
        for setup in setups
        if {*only} <= {*str(setup).split(), *(("idle",) if setup.threads > 1 else ("contest",))}
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, help=f"for each configuration (default {USUAL.seconds:g})")
    parser.add_argument("--quick", action="store_true", help="a look at whether it works, in some 15 s")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="e.g. N=5 fair; contest; idle; 24; sleep=0.1"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    pace = QUICK if options.quick else USUAL
    if options.seconds:
        pace = Pace(options.seconds, min(pace.window, options.seconds), pace.lead, pace.idle, pace.idle_lead)
    contests, idlers = chosen(CONTESTS, options.only), chosen(IDLE, options.only)
    if options.quick:
        contests = [setup for setup in contests if setup.masters != 3 and setup.processes != 8]
    if not contests and not idlers:
        parser.error(f"no configuration has all of these: {' '.join(options.only)}")
    size = max(setup.processes for setup in [*contests, *idlers])
    with Masters(max(COUNTS)) as masters:
        machine = f"Python {platform.python_version()}, redis-py {redis.__version__}, {masters[0].binary}"
        print(f"{machine}, {platform.machine()}", flush=True)
        with Crew(size, masters.urls, list(COUNTS)) as crew:
            bench = Bench(masters, crew)
            results = contend(bench, contests, pace)
            print_contests(results)
            print_ratios(results)
            waits = [bench.idle(setup, pace.idle_lead, pace.idle) for setup in idlers]
            print_idle(waits)
    checks = list(budgets(results, waits))
    print("\nBudgets")
    for budget in checks:
        print(budget)
    if options.json:
        told = {
            "machine": machine,
            "pace": asdict(pace),
            "contests": [figures.summary() for figures in results],
            "idle": waits,
            "budgets": [asdict(budget) | {"kept": budget.kept} for budget in checks],
        }
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    sys.exit(0 if all(budget.kept for budget in checks) else 1)


if __name__ == "__main__":
    main()
