"""Many want one lock: how often does it go to somebody else, how fast, for what, and does everybody get it?

Contestants take turns on the same masters, in an order that is drawn anew in every round. Each turn is
contention for a new lock: a lead-in that counts for the overlaps only, the window that counts, and the time
until the last has left. Processes are kept between turns.

- sections_per_s, changes_per_s: sections that began in the window, and those of them that followed another
  owner's (another thread's). The difference are owners that take the lock again while others wait. Low and
  high are the turns with the fewest and the most.
- hand_off_p50_us, hand_off_p99_us: from before the release in one process to the return of the acquire in
  the next owner, where that is another process and was waiting already. Low and high: the turns' medians.
- cpu_ms_per_section: user and system time of all workers in the window, waiting included; masters not.
- requests_per_section, commands_per_section: what all masters together read from sockets, and what they
  executed, the inner commands of scripts included. scripts_per_section: EVAL and EVALSHA of these.
- attempts_per_section (ours): scripts for each master, less one release; an undo is in it as well.
- jain: index of fairness of sections over all threads, mean of the turns (1: all had the same).
- starved: threads that had no section in a window, mean of the turns.
- longest_wait_ms: cut off at the end of its window, failed waits included.
- overlaps: sections that began while another one lasted. It must be 0.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from bench.harness.crew import Crew, chosen, reason
from bench.harness.field import Entry
from bench.harness.lineup import Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.sections import Tally
from bench.harness.watch import Counters

NAME = "contention"
TITLE = "Many want one lock"
QUESTION = "How often does a lock that all want go to the next owner, at what cost, and who gets none?"

HOLD_MS = 1
ROUNDS = 2
#: What each part takes of the time that is left when it begins.
SHARES = {"field": 0.62, "growth": 0.55, "one": 0.95}
MAX_WINDOW_S, MIN_WINDOW_S = 2.5, 0.6
#: Whose last waits went on for longer than this has no second turn when time is up.
LONG_DRAIN_S = 3.0
#: Virtual machines take seconds of CPU time to start, and up to 200 MB each: the same number of threads, in
#: fewer processes.
MAX_PROCESSES = {"Java": 4}
GROWTH = (2, 8, 24)


@dataclass(frozen=True)
class Setup:
    """How many contend."""

    masters: int
    processes: int
    threads: int

    def for_language(self, language: str) -> Setup:
        """The same number of threads in as many processes as the language gets."""
        processes = min(self.processes, MAX_PROCESSES.get(language, self.processes))
        return Setup(self.masters, processes, self.processes * self.threads // processes)


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    with Masters(5) as masters, Contests(masters.urls, dice, quick) as contests:
        everybody = Setup(5, *((2, 2) if quick else (8, 2)))
        case = contests.case(everybody, chosen(entries, 5, quick), clock.part(SHARES["field"]))
        yield case
        best = best_of(case, entries)
        contests.dismiss(set(contests.crews) - best)
        part = clock.part(SHARES["growth"])
        sizes = () if quick else GROWTH
        for i, processes in enumerate(sizes):
            taking_part = [entry for entry in entries if entry.key in best]
            yield contests.case(Setup(5, processes, 1), taking_part, part.part(1 / (len(sizes) - i)))
    with Masters(1) as masters, Contests(masters.urls, dice, quick) as contests:
        one = Setup(1, everybody.processes, everybody.threads)
        yield contests.case(one, chosen(entries, 1, quick), clock.part(SHARES["one"]))


def best_of(case: Case, entries: Sequence[Entry]) -> set[str]:
    """Ours for threads, and of the peers the one with the most changes of owner at its defaults and tuned."""
    rates = {key: row.figures["changes_per_s"] for key, row in case.rows.items() if row.figures}
    best = {entry.key for entry in entries if entry.key in ("rlock", "rlock-fair") and entry.key in rates}
    for tuned in (False, True):
        peers = [e.key for e in entries if e.family == "peer" and e.tuned == tuned and e.key in rates]
        if peers:
            best.add(max(peers, key=lambda key: rates[key]))
    return best


class Contests:
    """Crews on one fleet of masters. One that fails has its error in the row, and takes part no more."""

    def __init__(self, urls: Sequence[str], dice: random.Random, quick: bool) -> None:
        self._urls = list(urls)
        self._dice = dice
        self._rounds = 1 if quick else ROUNDS
        self._lead_s = 0.1 if quick else 0.3
        self._windows_s = (0.15, 0.3) if quick else (MIN_WINDOW_S, MAX_WINDOW_S)
        self._counters = Counters(self._urls)
        self.crews: dict[str, Crew] = {}

    def case(self, setup: Setup, entries: Sequence[Entry], clock: Clock) -> Case:
        """All of these in turn, as long as the clock says."""
        rows = {entry.key: Row() for entry in entries}
        tallies = {entry.key: Tally() for entry in entries}
        setups = {entry.key: setup.for_language(entry.language) for entry in entries}
        for entry in entries:
            try:
                self._have(entry, setups[entry.key].processes)
            except Exception as error:
                rows[entry.key].error = reason(error)
        for round_ in range(self._rounds):
            pending = [key for key in tallies if key in self.crews]
            self._dice.shuffle(pending)
            while pending:
                turns = len(pending) + len(self.crews) * (self._rounds - round_ - 1)
                window = self._window_s(clock.left() / turns)
                key = pending.pop()
                if round_ and not clock.left() and self.crews[key].drain_s > LONG_DRAIN_S:
                    continue
                try:
                    turn = self.crews[key].contend(
                        self._counters,
                        setups[key].processes,
                        setups[key].threads,
                        HOLD_MS * 1000,
                        self._lead_s,
                        window,
                    )
                    tallies[key].add(turn)
                except Exception as error:
                    rows[key].error = reason(error)
                    self.dismiss({key})
        for entry in entries:
            tell(rows[entry.key], entry, tallies[entry.key], setups[entry.key])
        described = {"masters": setup.masters, "processes": setup.processes, "threads": setup.threads}
        case = Case({**described, "hold_ms": HOLD_MS}, rows)
        case.compare("changes_per_s", ["rlock"])
        return case

    def dismiss(self, keys: Collection[str]) -> None:
        """End these."""
        for key in keys:
            if crew := self.crews.pop(key, None):
                crew.close()

    def _have(self, entry: Entry, size: int) -> None:
        try:
            if entry.key not in self.crews:
                self.crews[entry.key] = Crew(entry, self._urls, size)
            self.crews[entry.key].grow(size)
            self.crews[entry.key].warm_up()
        except BaseException:
            self.dismiss({entry.key})
            raise

    def _window_s(self, turn_s: float) -> float:
        """What is left of a turn for the window, by what the others needed beside it."""
        drain = sum(crew.drain_s for crew in self.crews.values()) / len(self.crews)
        shortest, longest = self._windows_s
        return min(longest, max(shortest, turn_s - self._lead_s - drain - 0.05))

    def __enter__(self) -> Contests:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss(list(self.crews))
        self._counters.close()


def tell(row: Row, entry: Entry, tally: Tally, setup: Setup) -> None:
    """What a contestant did, in its row; an acquire that failed stands there beside the figures."""
    if tally.rates:
        row.figures = tally.figures() | {"processes": setup.processes, "threads": setup.threads}
        if entry.family == "rlock" and tally.sections:
            row.figures["attempts_per_section"] = tally.scripts / setup.masters / tally.sections - 1
    if tally.errors and not row.error:
        row.error = f"{tally.first_error} ({tally.errors} times)"
