"""An uncontended lock: one acquire and release.

A contestant that knows one master only is measured with one. Ratios are to the floors of the same run (the
same commands without a lock around them), to rlock and to redis-py's Lock, round by round. ``server_us``: CPU
time of one master for a pair; ``script_us``: the part of it in EVAL and EVALSHA.

Turns are short and many, so that noise of the machine hits all alike. With one master each contestant runs
on one half of the cores and the master on the other half (``harness/cores.py``): left to the kernel, the
ratio of two contestants changed by a third from run to run. With several masters the kernel places all
processes: on half of two cores five masters would answer one after another, which no user sees.
"""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from bench.harness import cores
from bench.harness.contestants import Contestant
from bench.harness.counters import Counters, cpu_ns
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
        with Masters(size) as masters, placed(masters, chosen) as runners, Counters(masters.urls) as counters:
            pids = [master.pid for master in masters if master.pid]
            runners.warm_up(lambda runner: runner.key, rng, part.part(WARM_UP), nested)
            served: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for runner in runners.turns(rng, part):
                counters.start()
                cpu = cpu_ns(pids)
                pairs = size * runner.batch(runner.key, nested=nested)
                cpu = cpu_ns(pids) - cpu
                served[runner.key].append((cpu / 1e3 / pairs, counters.stop().script_us / pairs))
            rows = {runner.key: runner.row() for runner in runners.runners}
            for key, row in rows.items():
                row.add("server_us", [each for each, _ in served[key]])
                row.add("script_us", [each for _, each in served[key]])
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
