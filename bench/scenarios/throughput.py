"""Many uncontended locks at the same time: each thread has its own.

``pairs_per_s``: acquires with their releases, of all threads and processes together. ``cpu_us_per_pair``:
user and system time of the processes without the masters. "Threads" are tasks or promises where the library
is for an event loop.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.contests import Contests, Setup
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import Clock, taking_turns

NAME = "throughput"
TITLE = "Many locks at the same time"
QUESTION = "How many uncontended locks can be taken in a second, and for how much CPU time?"

SIZES = tuple(Setup(*size) for size in ((5, 1, 1), (5, 1, 8), (5, 1, 32), (5, 4, 1), (1, 1, 8)))
QUICK_SIZES = tuple(Setup(*size) for size in ((5, 1, 1), (5, 1, 8), (5, 2, 1), (1, 1, 8)))
#: Of a turn: the lead-in, which does not count, and the shortest and the longest window.
LEAD_S, WINDOWS_S = 0.05, (0.15, 2.0)


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    sizes, rounds = (QUICK_SIZES, 1) if quick else (SIZES, LEAST_ROUNDS)
    to_come = len(sizes)
    for masters in (5, 1):
        taking_part = taking_turns(contestants, masters, quick)
        bases = [*(one.key for one in taking_part if one.family == "floor"), "rlock"]
        with (
            Masters(masters) as fleet,
            Contests(fleet.urls, random.Random(NAME), rounds, LEAD_S, WINDOWS_S, own=True) as contests,
        ):
            for setup in (size for size in sizes if size.masters == masters):
                part = clock.part(1 / to_come)
                to_come -= 1
                rows = contests.rows(setup, taking_part, part)
                case = Case(setup.case, {key: row_of(row) for key, row in rows.items()})
                case.compare("pairs_per_s", bases)
                yield case


def row_of(found: Row) -> Row:
    """The figures of locks that nobody else wants."""
    rates, cpu = found.by_round.get("sections_per_s", []), found.by_round.get("cpu_ms_per_section", [])
    rounds = {"pairs_per_s": rates, "cpu_us_per_pair": [1e3 * each for each in cpu]}
    row = Row.of_rounds(rounds, found.error)
    if failed := found.figures.get("errors"):
        row.figures["failed"] = failed
    return row
