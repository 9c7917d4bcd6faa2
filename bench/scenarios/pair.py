"""An uncontended lock: one acquire and release.

A contestant that knows one master only is measured with one. Ratios are to the floors of the same run (the
same commands without a lock around them), to rlock and to redis-py's Lock, round by round.

Turns are short and many, so that noise of the machine hits all alike. With one master each contestant runs
on one half of the cores and the master on the other half (``harness/cores.py``): left to the kernel, the
ratio of two contestants changed by a third from run to run. With several masters the kernel places all
processes: on half of two cores five masters would answer one after another, which no user sees.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

from bench.harness import cores
from bench.harness.contestants import Contestant
from bench.harness.masters import Masters
from bench.harness.results import Case
from bench.harness.turns import Clock, Runners, taking_turns
from rlock.testing.local import embedded

NAME = "pair"
TITLE = "An uncontended lock"
QUESTION = "How long do one acquire and release take, and how far is that from the limit?"

MASTERS, QUICK_MASTERS = (1, 3, 5), (1, 5)
#: Of the time of a case, once all have started.
WARM_UP = 0.2


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    yield from cases(contestants, Clock(budget_s), QUICK_MASTERS if quick else MASTERS, quick)


def cases(
    contestants: Sequence[Contestant], clock: Clock, sizes: Sequence[int], quick: bool, nested: bool = False
) -> Iterator[Case]:
    """Each fleet in turn; ``nested``: of a lock that its owner holds already."""
    floors = [contestant.key for contestant in contestants if contestant.family == "floor"]
    for i, size in enumerate(sizes):
        rng = random.Random(size)
        part = clock.part(1 / (len(sizes) - i))
        chosen = taking_turns(contestants, size, quick)
        with Masters(size) as masters, placed(masters, chosen) as runners:
            runners.warm_up(lambda runner: runner.key, rng, part.part(WARM_UP), nested)
            for runner in runners.turns(rng, part):
                runner.batch(runner.key, nested=nested)
            rows = {runner.key: runner.row() for runner in runners.runners}
        case = Case({"masters": size}, rows)
        case.compare("p50_us", [*floors, "rlock", "redis-py"])
        yield case


@contextlib.contextmanager
def placed(masters: embedded.Masters, chosen: Sequence[Contestant]) -> Iterator[Runners]:
    """All opened on these masters; with one master, on the other half of the cores."""
    both = cores.halves() if len(masters) == 1 else None
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as starting:
            if both is not None:
                for master in masters:
                    assert master.pid is not None
                    cores.move(master.pid, both[1])
                starting.enter_context(cores.started_on(both[0]))
            runners = stack.enter_context(Runners((contestant, masters.urls) for contestant in chosen))
        yield runners
