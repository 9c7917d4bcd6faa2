"""How much one gets done when many locks are taken at the same time, none of them wanted by two.

``pairs_per_s``: acquires with their releases, of all threads and processes together; low and high are the
slowest and the fastest of its turns. ``cpu_us_per_pair``: user and system time of the processes, masters not.
"Threads" are tasks or promises where the library is for an event loop.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.harness.field import Entry
from bench.harness.lineup import PATIENCE_S, Clock, Lineup, Runner, a_few, gather, meeting, without_twins
from bench.harness.masters import Masters
from bench.harness.results import Case, Row

NAME = "throughput"
TITLE = "Many locks at the same time"
QUESTION = "How many locks can be taken in a second, each wanted by one thread, and for how much CPU time?"

#: Processes and threads in each.
SIZES = ((1, 1), (1, 8), (1, 32), (4, 1))
QUICK_SIZES = ((1, 1), (1, 8), (2, 1))
ROUNDS = 2
#: A turn is not shorter, also where earlier ones took longer than they should.
LEAST_S = 0.05
#: Of a turn: what is not counted before the first round.
WARM_UP = 0.5


@dataclass
class Tally:
    """The turns of one contestant."""

    rates: list[float] = field(default_factory=list)
    pairs: int = 0
    ns: int = 0
    cpu_ns: int = 0
    errors: list[str] = field(default_factory=list)

    def row(self) -> Row:
        if not self.pairs:
            return Row(error=self.errors[0] if self.errors else "Failed: not a single pair")
        figures = {
            "pairs_per_s": self.pairs / self.ns * 1e9,
            "pairs_per_s_low": min(self.rates),
            "pairs_per_s_high": max(self.rates),
            "cpu_us_per_pair": self.cpu_ns / self.pairs / 1e3,
        }
        if self.errors:
            figures["failed"] = float(len(self.errors))
        return Row(figures, {}, self.errors[0] if self.errors else None)


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    chosen = without_twins(meeting(entries, 5))
    if quick:
        chosen = a_few(chosen)
    sizes = QUICK_SIZES if quick else SIZES
    most = max(processes for processes, _ in sizes)
    with (
        Masters(5) as masters,
        Lineup((entry, masters.urls) for entry in chosen for _ in range(most)) as lineup,
    ):
        crews = {entry.key: [one for one in lineup.runners if one.key == entry.key] for entry in chosen}
        for i, (processes, threads) in enumerate(sizes):
            part = clock.part(1 / (len(sizes) - i))
            tallies = {key: Tally() for key in crews}
            seconds = max(LEAST_S, part.left() / (len(crews) or 1) / (ROUNDS + WARM_UP) * 0.9)
            for round_ in range(-1, ROUNDS):
                order = sorted(crews)
                dice.shuffle(order)
                for key in order:
                    crew = crews[key][:processes]
                    if round_ < 0:
                        turn(crew, threads, seconds * WARM_UP, Tally())
                    else:
                        turn(crew, threads, seconds, tallies[key])
            case = Case({"masters": 5, "processes": processes, "threads": threads})
            for key, tally in tallies.items():
                out = [one.error for one in crews[key][:processes] if one.error]
                case.rows[key] = Row(error=out[0]) if out and not tally.pairs else tally.row()
                case.rows[key].error = case.rows[key].error or (out[0] if out else None)
            case.compare("pairs_per_s", [*(one.key for one in chosen if one.family == "floor"), "rlock"])
            yield case


def turn(crew: Sequence[Runner], threads: int, seconds: float, tally: Tally) -> None:
    """All of its processes at the same time; one that fails is out, and the others with it."""
    if not all(one.runs for one in crew):
        return
    before = [one.ask("usage") for one in crew]
    for i, one in enumerate(crew):
        one.send("throughput", prefix=f"{NAME}-{one.key}-{i}-", threads=threads, seconds=seconds)
    found = [answer for _, answer in gather(crew, seconds + PATIENCE_S)]
    after = [one.ask("usage") for one in crew]
    answers = [answer for answer in found if answer is not None]
    if len(answers) < len(crew) or None in before or None in after:
        return
    for answer in answers:
        tally.errors += [str(error)[:300] for error in answer["errors"]]
    pairs, ns = sum(answer["pairs"] for answer in answers), max(answer["ns"] for answer in answers)
    if not pairs:
        return
    tally.pairs += pairs
    tally.ns += ns
    tally.rates.append(pairs / ns * 1e9)
    tally.cpu_ns += sum(b["cpu_ns"] - a["cpu_ns"] for a, b in zip(before, after, strict=True) if a and b)
