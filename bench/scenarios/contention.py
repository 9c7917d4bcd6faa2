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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from bench.harness.contestants import Contestant
from bench.harness.counters import Counters
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.groups import Group, chosen
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.sections import Turn, row_of
from bench.harness.turns import Clock, reason

NAME = "contention"
TITLE = "Contention"
QUESTION = "How often does a contended lock go to the next owner, at what cost, and how fairly?"

HOLD_MS = 1
#: The share of each part in the time that is left when it begins.
SHARES = {"everybody": 0.5, "growth": 0.55, "one": 0.95}
MAX_WINDOW_S, MIN_WINDOW_S = 2.5, 0.5
#: A contestant whose last waits outlast the window by more than this has no further turn when time is up.
LONG_DRAIN_S = 3.0
#: A virtual machine takes seconds of CPU time to start, and 200 MB. In the case with more processes than
#: these Java has the same number of threads in fewer processes, and its row says so.
MAX_PROCESSES = {"Java": 8}
GROWTH = (2, 8, 24)


@dataclass(frozen=True)
class Setup:
    """The masters, and the processes and threads that contend."""

    masters: int
    processes: int
    threads: int

    def for_language(self, language: str) -> Setup:
        """The same number of threads, in at most as many processes as the language may have."""
        processes = min(self.processes, MAX_PROCESSES.get(language, self.processes))
        return Setup(self.masters, processes, self.processes * self.threads // processes)


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    rng = random.Random(NAME)
    with Masters(5) as masters, Contests(masters.urls, rng, quick) as contests:
        everybody = Setup(5, *((2, 2) if quick else (8, 2)))
        case = contests.case(everybody, chosen(contestants, 5, quick), clock.part(SHARES["everybody"]))
        yield case
        best = best_of(case, contestants)
        contests.dismiss(set(contests.groups) - best)
        part = clock.part(SHARES["growth"])
        sizes = () if quick else GROWTH
        for i, processes in enumerate(sizes):
            part_of_it = part.part(1 / (len(sizes) - i))
            yield contests.case(Setup(5, processes, 1), [c for c in contestants if c.key in best], part_of_it)
    with Masters(1) as masters, Contests(masters.urls, rng, quick) as contests:
        one = Setup(1, everybody.processes, everybody.threads)
        yield contests.case(one, chosen(contestants, 1, quick), clock.part(SHARES["one"]))


def best_of(case: Case, contestants: Sequence[Contestant]) -> set[str]:
    """Ours for threads, and the peers with the most owner changes: one at its defaults, one tuned."""
    rates = {key: row.figures["changes_per_s"] for key, row in case.rows.items() if row.figures}
    best = {c.key for c in contestants if c.key in ("rlock", "rlock-fair") and c.key in rates}
    for tuned in (False, True):
        peers = [c.key for c in contestants if c.family == "peer" and c.tuned == tuned and c.key in rates]
        if peers:
            best.add(max(peers, key=lambda key: rates[key]))
    return best


class Contests:
    """Groups on the same masters. A contestant that fails has its error in the row, and no more turns."""

    def __init__(self, urls: Sequence[str], rng: random.Random, quick: bool) -> None:
        self._urls = list(urls)
        self._rng = rng
        self._rounds = 1 if quick else LEAST_ROUNDS
        self._lead_s = 0.1 if quick else 0.3
        self._windows_s = (0.15, 0.3) if quick else (MIN_WINDOW_S, MAX_WINDOW_S)
        self._counters = Counters(self._urls)
        self.groups: dict[str, Group] = {}

    def case(self, setup: Setup, contestants: Sequence[Contestant], clock: Clock) -> Case:
        """All of these in turn, as long as the clock says."""
        rows = {contestant.key: Row() for contestant in contestants}
        turns: dict[str, list[Turn]] = {contestant.key: [] for contestant in contestants}
        setups = {contestant.key: setup.for_language(contestant.language) for contestant in contestants}
        for contestant in contestants:
            try:
                self._have(contestant, setups[contestant.key].processes)
            except Exception as error:
                rows[contestant.key].error = reason(error)
        for round_ in range(self._rounds):
            pending = [key for key in turns if key in self.groups]
            self._rng.shuffle(pending)
            while pending:
                to_come = len(pending) + len(self.groups) * (self._rounds - round_ - 1)
                window = self._window_s(clock.left() / to_come)
                key = pending.pop()
                if round_ and not clock.left() and self.groups[key].drain_s > LONG_DRAIN_S:
                    continue
                try:
                    turn = self.groups[key].contend(
                        self._counters,
                        setups[key].processes,
                        setups[key].threads,
                        HOLD_MS * 1000,
                        self._lead_s,
                        window,
                    )
                    turns[key].append(turn)
                except Exception as error:
                    rows[key].error = reason(error)
                    self.dismiss({key})
        for contestant in contestants:
            row = row_of_all(contestant, turns[contestant.key], setups[contestant.key], setup)
            row.error = rows[contestant.key].error or row.error
            rows[contestant.key] = row
        described = {"masters": setup.masters, "processes": setup.processes, "threads": setup.threads}
        case = Case({**described, "hold_ms": HOLD_MS}, rows)
        case.compare("changes_per_s", ["rlock"])
        return case

    def dismiss(self, keys: Collection[str]) -> None:
        """End these."""
        for key in keys:
            if group := self.groups.pop(key, None):
                group.close()

    def _have(self, contestant: Contestant, size: int) -> None:
        try:
            if contestant.key not in self.groups:
                self.groups[contestant.key] = Group(contestant, self._urls, size)
            self.groups[contestant.key].grow(size)
            self.groups[contestant.key].warm_up()
        except BaseException:
            self.dismiss({contestant.key})
            raise

    def _window_s(self, turn_s: float) -> float:
        """The rest of a turn for the window, by the time that other turns needed beside it."""
        drain = sum(group.drain_s for group in self.groups.values()) / len(self.groups)
        shortest, longest = self._windows_s
        return min(longest, max(shortest, turn_s - self._lead_s - drain - 0.05))

    def __enter__(self) -> Contests:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss(list(self.groups))
        self._counters.close()


def row_of_all(contestant: Contestant, turns: Sequence[Turn], setup: Setup, usual: Setup) -> Row:
    """The row after all turns; it says if its processes and threads are not the usual ones."""
    row = row_of(turns)
    if setup != usual:
        row.differs = f"{setup.processes} processes x {setup.threads} threads"
    if contestant.family == "rlock" and "scripts_per_section" in row.by_round:
        attempts = [scripts / setup.masters - 1 for scripts in row.by_round["scripts_per_section"]]
        row.add("attempts_per_section", attempts)
    return row
