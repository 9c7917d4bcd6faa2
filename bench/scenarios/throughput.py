"""Many uncontended locks at the same time: each thread has its own.

``pairs_per_s``: acquires with their releases, of all threads and processes together. ``cpu_us_per_pair``:
user and system time of the processes without the masters. "Threads" are tasks or promises where the library
is for an event loop.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.harness.contestants import Contestant
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import PATIENCE_S, Clock, Runner, Runners, gather, taking_turns

NAME = "throughput"
TITLE = "Many locks at the same time"
QUESTION = "How many uncontended locks can be taken in a second, and for how much CPU time?"

#: Processes and threads in each, by the number of masters.
SIZES = {5: ((1, 1), (1, 8), (1, 32), (4, 1)), 1: ((1, 8),)}
QUICK_SIZES = {5: ((1, 1), (1, 8), (2, 1)), 1: ((1, 8),)}
#: A turn is never shorter, even if earlier ones took too long.
LEAST_S = 0.05
#: The uncounted turn before the first round, as a part of a turn.
WARM_UP = 0.5


class Turn(NamedTuple):
    """One turn of one contestant."""

    pairs: int
    ns: int
    cpu_ns: int
    errors: list[str]


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    rng = random.Random(NAME)
    sizes, rounds = (QUICK_SIZES, 1) if quick else (SIZES, LEAST_ROUNDS)
    to_come = sum(map(len, sizes.values()))
    for masters in sizes:
        chosen = taking_turns(contestants, masters, quick)
        most = max(processes for processes, _ in sizes[masters])
        with (
            Masters(masters) as fleet,
            Runners((one, fleet.urls) for one in chosen for _ in range(most)) as runners,
        ):
            by_key = {one.key: [each for each in runners.runners if each.key == one.key] for one in chosen}
            for processes, threads in sizes[masters]:
                part = clock.part(1 / to_come)
                to_come -= 1
                turns: dict[str, list[Turn]] = {key: [] for key in by_key}
                seconds = max(LEAST_S, part.left() / (len(by_key) or 1) / (rounds + WARM_UP) * 0.9)
                for round_ in range(-1, rounds):
                    order = sorted(by_key)
                    rng.shuffle(order)
                    for key in order:
                        share = WARM_UP if round_ < 0 else 1.0
                        done = turn(by_key[key][:processes], threads, seconds * share)
                        if round_ >= 0 and done is not None:
                            turns[key].append(done)
                case = Case({"masters": masters, "processes": processes, "threads": threads})
                case.rows = {key: row_of(turns[key], by_key[key][:processes]) for key in by_key}
                case.compare("pairs_per_s", [*(one.key for one in chosen if one.family == "floor"), "rlock"])
                yield case


def turn(processes: Sequence[Runner], threads: int, seconds: float) -> Turn | None:
    """All processes at the same time. If one fails, the others take no more turns, too."""
    if not all(one.runs for one in processes):
        return None
    before = [one.ask("usage") for one in processes]
    for i, one in enumerate(processes):
        one.send("throughput", prefix=f"{NAME}-{one.key}-{i}-", threads=threads, seconds=seconds)
    replies = [reply for _, reply in gather(processes, seconds + PATIENCE_S) if reply is not None]
    after = [one.ask("usage") for one in processes]
    if len(replies) < len(processes) or None in before or None in after:
        return None
    return Turn(
        sum(reply["pairs"] for reply in replies),
        max(reply["ns"] for reply in replies),
        sum(b["cpu_ns"] - a["cpu_ns"] for a, b in zip(before, after, strict=True) if a and b),
        [str(error)[:300] for reply in replies for error in reply["errors"]],
    )


def row_of(turns: Sequence[Turn], processes: Sequence[Runner]) -> Row:
    """The row of a contestant: its counted turns, and the failures of its processes."""
    errors = [error for turn in turns for error in turn.errors]
    failed = [one.error for one in processes if one.error]
    counted = [turn for turn in turns if turn.pairs]
    if not counted and not failed:
        errors = errors or ["Failed: not a single pair"]
    row = Row.of_rounds(
        {
            "pairs_per_s": [turn.pairs / turn.ns * 1e9 for turn in counted],
            "cpu_us_per_pair": [turn.cpu_ns / turn.pairs / 1e3 for turn in counted],
        },
        error=next(iter([*errors, *failed]), None),
    )
    if errors and counted:
        row.figures["failed"] = float(len(errors))
    return row
