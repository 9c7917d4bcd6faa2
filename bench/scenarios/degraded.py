"""What a lock costs when one of five masters is dead, stopped or far away, next to five that are well.

Four fleets stand side by side, and each contestant has a process at each of them. The masters fail when all
have connected, locked and released; then everybody has time to notice. What is measured begins after that:
ratios ``healthy`` (of the p50) and ``healthy_p99`` are to the same contestant on the healthy fleet, whose
turns are in between.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

from bench.harness import figures
from bench.harness.delay import Delay
from bench.harness.field import Entry
from bench.harness.lineup import PATIENCE_S, Clock, Lineup, Runner, a_few, gather, meeting, without_twins
from bench.harness.masters import Masters
from bench.harness.results import Case

NAME = "degraded"
TITLE = "One of five masters is in trouble"
QUESTION = "Does everybody wait for a master that is dead, stopped or slow?"

HEALTHY, DEAD, STALLED, FAR = "healthy", "one dead", "one stalled", "one 20 ms away"
STATES = (HEALTHY, DEAD, STALLED, FAR)
FAR_MS = 20.0
#: Twenty masters and the processes at them take about so long to end.
CLOSING_S = 1.5
#: How long a pair may take before it counts as hanging, in a quick run.
QUICK_PATIENCE_S = 2.0
#: The one in trouble: not the first, not the last, for those that ask one after another.
WHICH = 2
#: Everybody locks for so long after the masters have failed, before anything counts.
NOTICE_S = 1.5
#: Those that need longer for a pair even now do so in waiting for a master: they are measured side by side.
SLOW_S = 0.5
#: How often.
SLOW_PAIRS = 2


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s - CLOSING_S)
    dice = random.Random(NAME)
    # Floors are commands, not locks: they have no answer to a dead master.
    chosen = [entry for entry in without_twins(meeting(entries, 5)) if entry.family != "floor"]
    if quick:
        chosen = a_few(chosen)
    with contextlib.ExitStack() as stack:
        fleets = {state: stack.enter_context(Masters(5)) for state in STATES}
        urls = {state: list(fleet.urls) for state, fleet in fleets.items()}
        delay = stack.enter_context(Delay([urls[FAR][WHICH]]))
        urls[FAR][WHICH] = delay.urls[0]
        lineup = stack.enter_context(Lineup((entry, urls[state]) for entry in chosen for state in STATES))
        states = {runner: STATES[i % len(STATES)] for i, runner in enumerate(lineup.runners)}
        lineup.warm_up("pairs", lock_of, dice, clock.part(0.1))
        fleets[DEAD][WHICH].kill()
        fleets[STALLED][WHICH].pause()
        delay.set(FAR_MS)
        patience_s = QUICK_PATIENCE_S if quick else PATIENCE_S
        notice(lineup, NOTICE_S / 3 if quick else NOTICE_S, patience_s)
        slow = measure_slow(lineup, patience_s)
        lineup.runners = [runner for runner in lineup.runners if runner not in slow]
        try:
            for runner in lineup.turns(dice, clock):
                runner.batch("pairs", lock_of(runner), patience_s)
        finally:
            lineup.runners += slow  # it ends those that it has
        yield from told(states)


def lock_of(runner: Runner) -> str:
    return f"{NAME}-{runner.key}"


def notice(lineup: Lineup, seconds: float, patience_s: float) -> None:
    """All of them lock and release, at the same time, and find out."""
    for runner in lineup.runners:
        runner.send("throughput", prefix=f"{NAME}-notice-{runner.key}-", threads=1, seconds=seconds)
    for runner, _ in gather(lineup.runners, seconds + patience_s):
        # What a pair took before is no measure for a batch now.
        runner.pair_s = 0.0


def measure_slow(lineup: Lineup, patience_s: float) -> list[Runner]:
    """Find those that need long for a pair, and measure them; the others start anew."""
    slow = lineup.runners
    for _ in range(SLOW_PAIRS):
        for runner in slow:
            runner.send("pairs", lock=lock_of(runner), count=1)
        for runner, answer in gather(slow, patience_s):
            runner.take(answer)
        slow = [one for one in slow if one.rounds and one.rounds[-1][-1] > SLOW_S * 1e9]
    for runner in lineup.runners:
        if runner not in slow:
            runner.forget()
    return slow


def told(states: dict[Runner, str]) -> Iterator[Case]:
    """A case for each state."""
    healthy = {one.key: figures.durations(one.rounds) for one, state in states.items() if state == HEALTHY}
    for state in STATES:
        case = Case({"masters": 5, "state": state})
        for runner in (one for one, its in states.items() if its == state):
            found = figures.durations(runner.rounds)
            row = case.rows[runner.key] = runner.row(found)
            base = healthy[runner.key]
            if found and base:
                row.ratios["healthy"] = found["p50_us"] / base["p50_us"]
                row.ratios["healthy_p99"] = found["p99_us"] / base["p99_us"]
        yield case
