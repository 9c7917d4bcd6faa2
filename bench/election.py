"""How long it takes until one of k contenders, who all ask at the same instant, has a quorum of N masters.

Three ways, all in virtual time, all with seeds:

ours     the procedures of rlock, on the simulated masters of tests/simulation
at once  who has no quorum gives its votes back and asks again at once: each round is a new lottery
backing  the same, but it waits before it asks again: a random time whose ceiling doubles each round

Run as ``python -m bench.election`` from the top of a checkout; writes docs/election.svg (needs matplotlib,
``pip install -e '.[bench]'``; ``--no-plot`` does without).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

from rlock.rules.quorum import quorum
from tests.simulation.election import elect
from tests.simulation.events import Events, Latency, Wire

PLOT = Path(__file__).parents[1] / "docs" / "election.svg"
MASTERS = (3, 5, 7)
CONTENDERS = (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
#: A lottery that is not over by then is given up.
ROUNDS = 10_000
#: How far the doubling goes, in round trips. Ours ends at 0.1 s, which is as much at 0.4 ms each.
CEILING = 256


@dataclass(frozen=True)
class Result:
    """One election: the rounds of the one who won it, and how many mean round trips it took."""

    rounds: float
    time: float


def ours(masters: int, contenders: int, seed: int) -> Result:
    """The real procedures; fresh clients, which have to subscribe first when they have lost."""
    election = elect(masters, contenders, seed, only_first=True)
    return Result(election.rounds, election.first)


def ours_standing(masters: int, contenders: int, seed: int) -> Result:
    """The same with clients that have waited for this lock a moment ago."""
    election = elect(masters, contenders, seed, only_first=True, standing=True)
    return Result(election.rounds, election.first)


def at_once(masters: int, contenders: int, seed: int) -> Result:
    """Each master votes for whoever comes first, which is anybody; a round is a round trip."""
    random, votes = Random(seed), quorum(masters)
    for rounds in range(1, ROUNDS + 1):
        drawn = [int(random.random() * contenders) for _ in range(masters)]
        if max(map(drawn.count, drawn)) >= votes:
            return Result(rounds, rounds)
    return Result(math.inf, math.inf)


def expected(masters: int, contenders: int) -> float:
    """The mean number of rounds of `at_once`: k times the chance that one of k has a quorum, inverted."""
    share = 1 / contenders
    chance = sum(
        math.comb(masters, votes) * share**votes * (1 - share) ** (masters - votes)
        for votes in range(quorum(masters), masters + 1)
    )
    return 1 / (contenders * chance)


class Backing:
    """Contenders that know nothing of each other: vote, give back, wait at random, ask again."""

    def __init__(self, masters: int, contenders: int, seed: int) -> None:
        self._random = Random(seed)
        self._latency = Latency()
        self._trip = 2 * self._latency.mean
        self._events = Events()
        self._votes: list[int | None] = [None] * masters
        self.result: Result | None = None
        for contender in range(contenders):
            self._ask(contender, 1, [Wire(self._events, self._random, self._latency) for _ in range(masters)])

    def run(self) -> Result:
        self._events.run(until=3600.0, done=lambda: self.result is not None)
        return self.result or Result(math.inf, math.inf)

    def _ask(self, contender: int, rounds: int, wires: list[Wire]) -> None:
        answers: list[bool] = []

        def arrive(master: int) -> None:
            if self._votes[master] is None:
                self._votes[master] = contender
            vote = self._votes[master] == contender
            back = self._latency.draw(self._random)
            self._events.at(self._events.now + back, lambda: answer(vote))

        def answer(vote: bool) -> None:
            answers.append(vote)
            if answers.count(True) >= quorum(len(wires)):
                self.result = self.result or Result(rounds, self._events.now / self._trip)
            elif len(answers) == len(wires):
                for master, wire in enumerate(wires):
                    wire.send(lambda master=master: give_back(master))  # type: ignore[misc]
                pause = self._trip * self._random.uniform(0, min(2**rounds, CEILING))
                self._events.at(self._events.now + pause, lambda: self._ask(contender, rounds + 1, wires))

        def give_back(master: int) -> None:
            if self._votes[master] == contender:
                self._votes[master] = None

        for master, wire in enumerate(wires):
            wire.send(lambda master=master: arrive(master))  # type: ignore[misc]


def backing(masters: int, contenders: int, seed: int) -> Result:
    return Backing(masters, contenders, seed).run()


Way = Callable[[int, int, int], Result]
WAYS: dict[str, Way] = {
    "ours": ours,
    "ours, subscribed": ours_standing,
    "back-off": backing,
    "at once": at_once,
}


@dataclass(frozen=True)
class Figures:
    """Many elections of one kind; the means are infinite if one was given up."""

    rounds: float
    time: float
    median_time: float
    p99_time: float
    worst_rounds: float

    @classmethod
    def of(cls, results: Sequence[Result]) -> Figures:
        times = sorted(result.time for result in results)
        return cls(
            fmean(result.rounds for result in results),
            fmean(times),
            median(times),
            times[math.ceil(len(times) * 0.99) - 1],
            max(result.rounds for result in results),
        )


Table = dict[tuple[str, int, int], Figures]


def measure(seeds: int) -> Table:
    table: Table = {}
    for masters in MASTERS:
        print(f"\nN = {masters}    mean rounds (worst) of the first owner | mean (99 %) round trips")
        print(f"{'k':>5}" + "".join(f"{way:>34}" for way in WAYS) + f"{'expected at once':>18}")
        for contenders in CONTENDERS:
            cells = []
            for name, way in WAYS.items():
                figures = Figures.of([way(masters, contenders, seed) for seed in range(seeds)])
                table[name, masters, contenders] = figures
                cells.append(cell(figures))
            print(
                f"{contenders:>5}" + "".join(cells) + f"{expected(masters, contenders):>18,.1f}", flush=True
            )
    return table


def cell(figures: Figures) -> str:
    rounds = f"{number(figures.rounds)} ({number(figures.worst_rounds)})"
    return f"{rounds:>16} |{number(figures.time):>7} ({number(figures.p99_time)})".rjust(34)


def number(value: float) -> str:
    if math.isinf(value):
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def plot(table: Table, seeds: int, path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        sys.exit("the plot needs matplotlib: pip install -e '.[bench]', or go without by --no-plot")
    matplotlib.use("svg")
    # One seed, one file: neither the date nor random ids in it.
    matplotlib.rcParams.update({"svg.hashsalt": "rlock", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.4), sharex=True)
    styles: dict[str, dict[str, Any]] = {
        "ours": {"linestyle": "-", "linewidth": 2.0, "marker": "o", "markersize": 3.5},
        "back-off": {"linestyle": "--", "linewidth": 1.2},
        "at once": {"linestyle": ":", "linewidth": 1.4},
    }
    for colour, masters in zip(("#1b6ca8", "#c8553d", "#4a7c59"), MASTERS, strict=True):
        for name, style in styles.items():
            label = f"{name}, N = {masters}"
            known = [(k, table[name, masters, k]) for k in CONTENDERS]
            for panel, value in zip(panels, ("rounds", "time"), strict=True):
                points = [(k, getattr(figures, value)) for k, figures in known]
                finite = [(k, y) for k, y in points if math.isfinite(y)]
                panel.plot(*zip(*finite, strict=True), color=colour, label=label, **style)
    for panel, title in zip(
        panels, ("rounds of the first owner", "mean round trips until it owns"), strict=True
    ):
        panel.set(xscale="log", yscale="log", xlabel="contenders at the same instant", ylabel=title)
        panel.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        panel.set_ylim(0.8, ROUNDS)
        panel.grid(True, which="major", linewidth=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"Until one of k contenders has a quorum of N masters: means of {seeds} elections each")
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    print(f"\nwritten: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rounds until one of k contenders is elected.")
    parser.add_argument("--seeds", type=int, default=100, help="elections of each kind")
    parser.add_argument("--no-plot", action="store_true", help="the table only")
    options = parser.parse_args()
    table = measure(options.seeds)
    if not options.no_plot:
        plot(table, options.seeds, PLOT)


if __name__ == "__main__":
    main()
