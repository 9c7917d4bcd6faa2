"""What a lock costs when the masters are far away, counted in round trips to the q-th nearest of them.

Processes of a contestant meet the masters through a proxy that delays each byte. ``round_trip_us`` of a case
is measured through it by PING: the round trip to the q-th nearest master. ``p50_us``: acquire and release;
``acquire_us``: the acquire alone; ``hand_off_us``: from the call of release in one process to the return of
acquire in another one that waited. ``..._round_trips``: the same in round trips to the q-th nearest master.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.harness import figures
from bench.harness.delay import Delay, round_trip_us
from bench.harness.field import Entry
from bench.harness.lineup import Clock, Lineup, Runner, a_few, meeting, without_twins
from bench.harness.masters import Masters
from bench.harness.results import Case, Row

NAME = "wide_area"
TITLE = "Masters that are far away"
QUESTION = "How many round trips does a lock take?"

#: Round trips to the masters in milliseconds, and the share of the time that is left.
DISTANCES: tuple[tuple[tuple[float, ...], float], ...] = (
    ((1, 1, 1, 1, 1), 0.12),
    ((2, 2, 2, 2, 2), 0.2),
    ((20, 20, 20, 20, 20), 0.3),
    ((1, 1, 20, 20, 80), 0.4),
    ((80, 80, 80, 80, 80), 0.95),
)
QUICK_MS = (2, 20)
#: Of the time of a case.
WARM_UP, PAIRS = 0.15, 0.4
#: Hand-offs in a turn. Ours are cheap, since nobody polls, and two round trips are to be told from three.
HAND_OFFS, HAND_OFFS_OF_PEERS = 3, 1


@dataclass
class Pair:
    """A holder and a waiter of one contestant."""

    holder: Runner
    waiter: Runner
    acquires: list[float] = field(default_factory=list)
    hand_offs: list[float] = field(default_factory=list)
    error: str | None = None


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    chosen = without_twins(meeting(entries, 5))
    if quick:
        chosen = a_few(chosen)
    distances = [(rtt_ms, share) for rtt_ms, share in DISTANCES if not quick or rtt_ms[0] in QUICK_MS]
    with contextlib.ExitStack() as stack:
        delay = stack.enter_context(Delay(stack.enter_context(Masters(5)).urls))
        lineup = stack.enter_context(Lineup((entry, delay.urls) for entry in chosen for _ in range(2)))
        both = zip(lineup.runners[::2], lineup.runners[1::2], strict=True)
        pairs = [Pair(holder, waiter) for holder, waiter in both]
        for rtt_ms, share in distances:
            delay.set(*rtt_ms)
            yield case(pairs, delay, rtt_ms, dice, clock.part(share))


def case(
    pairs: Sequence[Pair], delay: Delay, rtt_ms: Sequence[float], dice: random.Random, clock: Clock
) -> Case:
    """All of them at this distance."""
    trips = sorted(round_trip_us(url, 10 if max(rtt_ms) < 20 else 3) for url in delay.urls)
    unit_us = trips[len(trips) // 2]
    holders = Lineup([])
    holders.runners = [pair.holder for pair in pairs]
    for pair in pairs:
        pair.acquires.clear()
        pair.hand_offs.clear()
    holders.warm_up("pairs", lock_of, dice, clock.part(WARM_UP))
    for runner in holders.turns(dice, clock.part(PAIRS)):
        runner.batch("pairs", lock_of(runner))
    by_holder = {pair.holder: pair for pair in pairs}
    lock = f"{NAME}-{'-'.join(f'{ms:g}' for ms in rtt_ms)}"
    for runner in holders.turns(dice, clock):
        for _ in range(HAND_OFFS if runner.entry.family == "rlock" else HAND_OFFS_OF_PEERS):
            hand_over(by_holder[runner], f"{lock}-{runner.key}", dice)
    told = Case({"masters": len(rtt_ms), "rtt_ms": list(rtt_ms), "round_trip_us": round(unit_us, 1)})
    told.rows = {pair.holder.key: row(pair, unit_us) for pair in pairs}
    told.compare("p50_us", ["rlock"])
    return told


def lock_of(runner: Runner) -> str:
    return f"{NAME}-{runner.key}"


def hand_over(pair: Pair, lock: str, dice: random.Random) -> None:
    """One acquires, the other one waits, the first one releases."""
    if pair.holder.entry.family == "floor" or not pair.waiter.runs:
        return
    acquired = pair.holder.ask("acquire", lock=lock, wait_ms=10_000)
    if acquired is None:
        return
    pair.waiter.send("acquire", lock=lock, wait_ms=10_000)
    # Long enough to be refused and to wait, and not in step with anybody's polling.
    time.sleep(2 * pair.holder.pair_s + 0.02 + dice.uniform(0, 0.1))
    released = pair.holder.ask("release", lock=lock)
    got = pair.waiter.answer()
    if released is None or got is None:
        return
    if not acquired["acquired"] or not got["acquired"]:
        pair.error = "TimeoutError: the waiter did not get the lock within 10 s"
        return
    pair.acquires.append(acquired["entered"] - acquired["asked"])
    pair.hand_offs.append(got["entered"] - released["began"])
    pair.waiter.ask("release", lock=lock)


def row(pair: Pair, unit_us: float) -> Row:
    """Its figures, in microseconds and in round trips."""
    found = figures.durations(pair.holder.rounds)
    if found:
        found["round_trips"] = found["p50_us"] / unit_us
    for name, values in (("acquire", pair.acquires), ("hand_off", pair.hand_offs)):
        if values:
            found[f"{name}_us"] = statistics.median(values) / 1e3
            found[f"{name}_round_trips"] = found[f"{name}_us"] / unit_us
            found[f"{name}_count"] = float(len(values))
    told = pair.holder.row(found)
    told.error = told.error or pair.error or pair.waiter.error
    return told
