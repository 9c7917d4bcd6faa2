"""Many threads want one lock: how often does it go to another thread, how fast, at what cost, and how fairly?

Contestants take turns on the same masters, in an order that is drawn anew in every round. Each turn is
contention for a new lock: a lead-in in which only overlaps count, the window that counts, and the time until
the last thread has left. Processes are kept between turns.

- sections_per_s, changes_per_s: critical sections that began in the window, and those among them that
  followed another owner's (another thread's). In the others an owner takes the lock again while other
  threads wait.
- hand_off_p50_us, hand_off_p99_us: from just before the release in one process to the return of the acquire
  in the next owner, if that is another process and was waiting already.
- cpu_ms_per_section: user and system time of all workers in the window, waiting included; masters not.
- requests_per_section: reads from sockets by all masters. scripts_per_section: EVAL and EVALSHA.
- attempts_per_section (ours): scripts for each master, less one release. An undo counts as an attempt, and so
  does the acquire that confirms a hand-off.
- jain: index of fairness of sections over all threads (1: all threads had the same number).
- starved: threads that had no section in a window, in the worst turn.
- overlaps: sections that began while another one lasted. It must be 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from bench.harness.contestants import Contestant
from bench.harness.contests import Contests, Setup, chosen
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case
from bench.harness.turns import Clock

NAME = "contention"
TITLE = "Contention"
QUESTION = "How often does a contended lock go to the next owner, at what cost, and how fairly?"

HOLD_MS = 1
#: The share of each part in the time that is left when it begins.
SHARES = {"everybody": 0.5, "growth": 0.55, "one": 0.95}
WINDOWS_S = 0.5, 2.5
GROWTH = (2, 8, 24)


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    how = 1 if quick else LEAST_ROUNDS, 0.1 if quick else 0.3, (0.15, 0.3) if quick else WINDOWS_S
    contests = partial(Contests, rng=random.Random(NAME), rounds=how[0], lead_s=how[1], windows_s=how[2])
    everybody = Setup(5, *((2, 2) if quick else (8, 2)))
    with Masters(5) as masters, contests(masters.urls, hold_us=HOLD_MS * 1000) as those:
        case = case_of(those, everybody, chosen(contestants, 5, quick), clock.part(SHARES["everybody"]))
        yield case
        best = best_of(case, contestants)
        those.dismiss(set(those.groups) - best)
        part = clock.part(SHARES["growth"])
        sizes = () if quick else GROWTH
        for i, processes in enumerate(sizes):
            part_of_it = part.part(1 / (len(sizes) - i))
            few = [c for c in contestants if c.key in best]
            yield case_of(those, Setup(5, processes, 1), few, part_of_it)
    with Masters(1) as masters, contests(masters.urls, hold_us=HOLD_MS * 1000) as those:
        one = replace(everybody, masters=1)
        yield case_of(those, one, chosen(contestants, 1, quick), clock.part(SHARES["one"]))


def case_of(contests: Contests, setup: Setup, contestants: Sequence[Contestant], clock: Clock) -> Case:
    """All of these in turn; ours with their attempts."""
    case = Case({**setup.case, "hold_ms": HOLD_MS}, contests.rows(setup, contestants, clock))
    for contestant in contestants:
        row = case.rows[contestant.key]
        if contestant.family == "rlock" and (scripts := row.by_round.get("scripts_per_section")):
            row.add("attempts_per_section", [count / setup.masters - 1 for count in scripts])
    case.compare("changes_per_s", ["rlock"])
    return case


def best_of(case: Case, contestants: Sequence[Contestant]) -> set[str]:
    """Ours for threads, and the peers with the most owner changes: one at its defaults, one tuned."""
    rates = {key: row.figures["changes_per_s"] for key, row in case.rows.items() if row.figures}
    best = {c.key for c in contestants if c.key in ("rlock", "rlock-fair") and c.key in rates}
    for tuned in (False, True):
        peers = [c.key for c in contestants if c.family == "peer" and c.tuned == tuned and c.key in rates]
        if peers:
            best.add(max(peers, key=lambda key: rates[key]))
    return best
