"""One of five masters is dead, stopped or far away: the cost of a lock, next to five healthy masters.

Four sets of masters run side by side, and each contestant has a process for each of them. The masters fail
when all processes have connected, locked and released. Then every process has time to notice, before the
first pair counts. The ratios ``healthy`` (of the p50) and ``healthy_p99`` are to the same contestant with
healthy masters, whose turns are in between.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.delay import Delay
from bench.harness.masters import Masters
from bench.harness.results import Case
from bench.harness.turns import PATIENCE_S, Clock, Runner, Runners, gather, taking_turns

NAME = "degraded"
TITLE = "One of five masters is in trouble"
QUESTION = "Does a lock wait for a master that is dead, stopped or slow?"

HEALTHY, DEAD, STALLED, FAR = "healthy", "one dead", "one stalled", "one 20 ms away"
STATES = (HEALTHY, DEAD, STALLED, FAR)
FAR_MS = 20.0
#: Seconds that twenty masters and their clients take to end.
CLOSING_S = 1.5
#: In a quick run a pair that takes longer hangs.
QUICK_PATIENCE_S = 2.0
#: The master in trouble: neither the first nor the last, for locks that ask one after another.
WHICH = 2
#: Seconds of locking after the masters have failed, before anything counts.
NOTICE_S = 1.5
#: A pair that takes longer even now waits for a master. Such runners are measured side by side, in few
#: rounds: each pair may take ten seconds.
SLOW_S = 0.5
SLOW_PAIRS = 2


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s - CLOSING_S)
    rng = random.Random(NAME)
    # Floors are commands, not locks: they have no answer to a dead master.
    chosen = [one for one in taking_turns(contestants, 5, quick) if one.family != "floor"]
    with contextlib.ExitStack() as stack:
        fleets = {state: stack.enter_context(Masters(5)) for state in STATES}
        urls = {state: list(fleet.urls) for state, fleet in fleets.items()}
        delay = stack.enter_context(Delay([urls[FAR][WHICH]]))
        urls[FAR][WHICH] = delay.urls[0]
        runners = stack.enter_context(
            Runners((contestant, urls[state]) for contestant in chosen for state in STATES)
        )
        states = {runner: STATES[i % len(STATES)] for i, runner in enumerate(runners.runners)}
        runners.warm_up(lock_of, rng, clock.part(0.1))
        fleets[DEAD][WHICH].kill()
        fleets[STALLED][WHICH].pause()
        delay.set(FAR_MS)
        patience_s = QUICK_PATIENCE_S if quick else PATIENCE_S
        notice(runners, NOTICE_S / 3 if quick else NOTICE_S, patience_s)
        slow = measure_slow(runners, patience_s)
        runners.runners = [runner for runner in runners.runners if runner not in slow]
        try:
            for runner in runners.turns(rng, clock):
                runner.batch(lock_of(runner), patience_s)
        finally:
            runners.runners += slow  # `Runners` ends only these
        yield from cases(states)


def lock_of(runner: Runner) -> str:
    return f"{NAME}-{runner.key}"


def notice(runners: Runners, seconds: float, patience_s: float) -> None:
    """All runners lock and release at the same time, and notice the masters in trouble."""
    stop_ns = time.monotonic_ns() + round(seconds * 1e9)
    for runner in runners.runners:
        runner.send("loop", lock=f"{NAME}-notice-{runner.key}", stop_ns=stop_ns)
    for runner, _ in gather(runners.runners, seconds + patience_s):
        # A pair may take much longer now: size the batches anew.
        runner.pair_s = 0.0


def measure_slow(runners: Runners, patience_s: float) -> list[Runner]:
    """Find the runners that need long for a pair, and measure them; the others start anew."""
    slow = runners.runners
    for _ in range(SLOW_PAIRS):
        for runner in slow:
            runner.send("loop", lock=lock_of(runner), count=1)
        for runner, answer in gather(slow, patience_s):
            runner.take(answer)
        slow = [one for one in slow if one.rounds and one.rounds[-1][-1] > SLOW_S * 1e9]
    for runner in runners.runners:
        if runner not in slow:
            runner.forget()
    return slow


def cases(states: dict[Runner, str]) -> Iterator[Case]:
    """A case for each state. Ratios are to the same contestant on the healthy masters."""
    healthy = {runner.key: runner.row() for runner, state in states.items() if state == HEALTHY}
    for state in STATES:
        case = Case({"masters": 5, "state": state})
        for runner in (one for one, its in states.items() if its == state):
            row = case.rows[runner.key] = runner.row()
            for figure, name in (("p50_us", "healthy"), ("p99_us", "healthy_p99")):
                if figure in row.figures and figure in healthy[runner.key].figures:
                    row.ratios[name] = row.figures[figure] / healthy[runner.key].figures[figure]
        yield case
