"""Masters that are far away: the cost of a lock, in round trips to the q-th nearest master.

The processes reach the masters through a proxy that delays each byte. ``round_trip_us`` of a case is the
round trip to the q-th nearest master, measured by PING through the proxy. ``round_trips``: acquire and
release; ``acquire_round_trips``: the acquire alone; ``hand_off_round_trips``: from the call of release in
one process to the return of acquire in another process that waited.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.delay import Delay, round_trip_us
from bench.harness.figures import LEAST_ROUNDS, durations
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.turns import Clock, HandOver, Pair, Runner, Runners, pairs_of, taking_turns

NAME = "wide_area"
TITLE = "Masters that are far away"
QUESTION = "How many round trips does a lock take?"

#: Round trips to the masters in milliseconds, and the share of the time that is left.
DISTANCES: tuple[tuple[tuple[float, ...], float], ...] = (
    ((2, 2, 2, 2, 2), 0.25),
    ((20, 20, 20, 20, 20), 0.3),
    ((1, 1, 20, 20, 80), 0.4),
    ((80, 80, 80, 80, 80), 0.95),
)
QUICK_MS = (2, 20)
#: Of the time of a case.
WARM_UP, PAIRS = 0.15, 0.4
#: Hand-offs in a turn. Ours are cheap, because no waiter polls, and a demand needs several.
HAND_OFFS, HAND_OFFS_OF_PEERS = LEAST_ROUNDS, 1


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    rng = random.Random(NAME)
    chosen = taking_turns(contestants, 5, quick)
    distances = [(rtt_ms, share) for rtt_ms, share in DISTANCES if not quick or rtt_ms[0] in QUICK_MS]
    with contextlib.ExitStack() as stack:
        delay = stack.enter_context(Delay(stack.enter_context(Masters(5)).urls))
        runners = stack.enter_context(
            Runners((contestant, delay.urls) for contestant in chosen for _ in range(2))
        )
        pairs = pairs_of(runners.runners)
        for rtt_ms, share in distances:
            delay.set(*rtt_ms)
            yield case(pairs, delay, rtt_ms, rng, clock.part(share))


def case(
    pairs: Sequence[Pair], delay: Delay, rtt_ms: Sequence[float], rng: random.Random, clock: Clock
) -> Case:
    trips = sorted(round_trip_us(url, 10 if max(rtt_ms) < 20 else 3) for url in delay.urls)
    unit_us = trips[len(trips) // 2]
    holders = Runners([])
    holders.runners = [pair.holder for pair in pairs]
    holders.warm_up(lock_of, rng, clock.part(WARM_UP))
    for runner in holders.turns(rng, clock.part(PAIRS)):
        runner.batch(lock_of(runner))
    by_holder = {pair.holder: pair for pair in pairs if pair.holder.contestant.family != "floor"}
    done: dict[Pair, list[HandOver]] = {pair: [] for pair in pairs}
    lock = f"{NAME}-{'-'.join(f'{ms:g}' for ms in rtt_ms)}"
    for runner in holders.turns(rng, clock):
        for _ in range(HAND_OFFS if runner.contestant.family == "rlock" else HAND_OFFS_OF_PEERS):
            pair = by_holder.get(runner)
            if pair is None or not pair.runs:
                break
            # Long enough to be refused and to wait, and not in step with a waiter that polls.
            wait_s = 2 * runner.pair_s + 0.02 + rng.uniform(0, 0.1)
            if (one := pair.hand_over(f"{lock}-{runner.key}", wait_s)) is not None:
                done[pair].append(one)
    result = Case({"masters": len(rtt_ms), "rtt_ms": list(rtt_ms), "round_trip_us": round(unit_us, 1)})
    result.rows = {pair.holder.key: row_of(pair, done[pair], unit_us) for pair in pairs}
    return result


def lock_of(runner: Runner) -> str:
    return f"{NAME}-{runner.key}"


def row_of(pair: Pair, done: Sequence[HandOver], unit_us: float) -> Row:
    """Its figures, in microseconds and in round trips."""
    by_round = durations(pair.holder.rounds)
    by_round["round_trips"] = [us / unit_us for us in by_round["p50_us"]]
    by_round["acquire_round_trips"] = [one.acquire_ns / 1e3 / unit_us for one in done]
    by_round["hand_off_round_trips"] = [one.hand_off_ns / 1e3 / unit_us for one in done]
    row = Row.of_rounds(by_round, pair.holder.error or pair.error or pair.waiter.error)
    if pair.holder.failed:
        row.figures["failed"] = float(pair.holder.failed)
    return row
