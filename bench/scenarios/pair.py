"""What a lock costs that nobody else wants: one acquire and release.

A contestant that knows one master only is measured with one. ``p50_low_us`` and ``p50_high_us`` are the
lowest and the highest of its turns' medians. Ratios are to the floors of the same run (the same commands
without a lock around them), to rlock and to redis-py's Lock: the median of the ratios of the rounds.

Turns are short and many, so that all meet the same moods of the machine. With one master each contestant
runs on one half of the cores and the master on the other one (``harness/placing.py``). Left to the kernel,
the ratio of two contestants in a short run was up to a third, or a half, more than in the run before; so it
is within a tenth. With several masters all run where the kernel puts them: half of two cores is one, on which
five masters answer one after another. That made a floor that waits for all of them slower than a lock that
goes on at the majority, which no user sees, and the ratios differed no less.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

from bench.harness import figures, placing
from bench.harness.field import Entry
from bench.harness.lineup import Clock, Lineup, Runner, a_few, meeting, without_twins
from bench.harness.masters import Masters
from bench.harness.results import Case
from rlock.testing.local import embedded

NAME = "pair"
TITLE = "A lock that nobody else wants"
QUESTION = "How long does one acquire and release take, and how far is that from the limit?"

MASTERS, QUICK_MASTERS = (1, 3, 5), (1, 5)
VERB = "pairs"
#: Of the time of a case, once all have started.
WARM_UP = 0.2


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    yield from cases(entries, Clock(budget_s), QUICK_MASTERS if quick else MASTERS, VERB, quick)


def cases(
    entries: Sequence[Entry], clock: Clock, sizes: Sequence[int], verb: str, quick: bool
) -> Iterator[Case]:
    """Each fleet in turn; the same for another verb."""
    floors = [entry.key for entry in entries if entry.family == "floor"]
    for i, size in enumerate(sizes):
        dice = random.Random(f"{verb} {size}")
        part = clock.part(1 / (len(sizes) - i))
        chosen = without_twins(meeting(entries, size))
        if quick:
            chosen = a_few(chosen)
        with Masters(size) as masters, placed(masters, chosen) as lineup:
            lineup.warm_up(verb, lambda runner: f"{verb}-{runner.key}", dice, part.part(WARM_UP))
            for runner in lineup.turns(dice, part):
                runner.batch(verb, f"{verb}-{runner.key}")
            rows = {one.key: one.row(figures.durations(one.rounds)) for one in lineup.runners}
        case = Case({"masters": size}, rows)
        compare(case, lineup.runners, [*floors, "rlock", "redis-py"])
        yield case


def compare(case: Case, runners: Sequence[Runner], against: Sequence[str]) -> None:
    """Note ratios, round by round. Of one that failed at times nobody knows which rounds it has."""
    case.compare("p50_us", against)
    whole = {one.key: one.rounds for one in runners if one.rounds and not one.error}
    for key, rounds in whole.items():
        for base in set(against) & set(whole):
            if (ratio := figures.ratio(rounds, whole[base])) is not None:
                case.rows[key].ratios[base] = ratio


@contextlib.contextmanager
def placed(masters: embedded.Masters, chosen: Sequence[Entry]) -> Iterator[Lineup]:
    """All opened on these masters; apart from it, if it is one."""
    both = placing.halves() if len(masters) == 1 else None
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as starting:
            if both is not None:
                for master in masters:
                    assert master.pid is not None
                    placing.move(master.pid, both[1])
                starting.enter_context(placing.started_on(both[0]))
            lineup = stack.enter_context(Lineup((entry, masters.urls) for entry in chosen))
        yield lineup
