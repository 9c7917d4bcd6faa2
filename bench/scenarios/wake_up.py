"""One process holds a lock, another one waits: how long after the release has the waiter got it?

The waiter has waited for 50 to 150 ms, drawn anew each time, when the holder releases. The figure is the time
from just before the release to the return of the acquire. Contestants take turns, in an order that each round
draws anew. A turn has as many hand-overs as fit into it, and at least one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.contests import chosen
from bench.harness.figures import LEAST_ROUNDS, durations
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import Clock, Pair, Runners, pairs_of

NAME = "wake_up"
TITLE = "Wake-up of one waiter"
QUESTION = "How long after a release does the waiter have the lock?"

WAITS_S = 0.05, 0.15


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    rng = random.Random(NAME)
    for masters, share in ((1, 0.4), (5, 1.0)):
        taking_part = chosen(contestants, masters, quick)
        part = clock.part(share)
        with (
            Masters(masters) as fleet,
            Runners((one, fleet.urls) for one in taking_part for _ in range(2)) as runners,
        ):
            pairs = pairs_of(runners.runners)
            for pair in pairs:
                pair.hand_over(lock_of(pair), 0.05)  # connections are made, scripts loaded
            took = measure(pairs, part, rng, 1 if quick else LEAST_ROUNDS)
            case = Case({"processes": 2, "masters": masters})
            case.rows = {pair.holder.key: row_of(pair, took[pair]) for pair in pairs}
        case.compare("p50_us", ["rlock"])
        yield case


def lock_of(pair: Pair) -> str:
    return f"{NAME}-{pair.holder.key}"


def measure(
    pairs: Sequence[Pair], clock: Clock, rng: random.Random, rounds: int
) -> dict[Pair, list[list[float]]]:
    """The times of all pairs, a list for each turn, in nanoseconds."""
    took: dict[Pair, list[list[float]]] = {pair: [] for pair in pairs}
    for round_ in range(rounds):
        order = [pair for pair in pairs if pair.runs]
        rng.shuffle(order)
        for i, pair in enumerate(order):
            turn = clock.part(1 / (len(order) * (rounds - round_) - i))
            took[pair].append([])
            while pair.runs and not pair.error:
                if (done := pair.hand_over(lock_of(pair), rng.uniform(*WAITS_S))) is not None:
                    took[pair][-1].append(done.hand_off_ns)
                if not turn.left():
                    break
    return took


def row_of(pair: Pair, rounds: Sequence[Sequence[float]]) -> Row:
    row = Row.of_rounds(durations(rounds), pair.holder.error or pair.waiter.error or pair.error)
    if not row.figures and not row.error:
        row.error = "Failed: it never waited before the release: the machine is too busy"
    return row
