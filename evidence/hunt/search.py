"""Search: play schedules until one shows that something promised was not kept, and make that one short.

A schedule that reached an abstract state that none before it had (`Oracles.state`) is kept, and others are
made of it. The course of a search follows from its first seed.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from ..bugs import broken
from ..simulation.play import Outcome, play
from ..simulation.schedules import Schedule, drawn, mutated, without

KEPT = 300  # schedules that are kept at a time: the oldest go first
MUTATED = 0.5  # the part of the schedules that are made of kept ones, as soon as there are some


@dataclass
class Find:
    """A schedule with which something promised was not kept; ``after`` so many schedules of its worker."""

    schedule: Schedule
    what: str
    after: int


@dataclass
class Sum:
    """The result of a search by one worker, or by several."""

    played: int = 0
    grants: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0  # of the worker that took longest: the seconds on a machine that does nothing else
    states: set[int] = field(default_factory=set)
    modes: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    find: Find | None = None

    def add(self, other: Sum) -> None:
        self.played += other.played
        self.grants += other.grants
        self.cpu_s = max(self.cpu_s, other.cpu_s)
        self.states |= other.states
        self.modes += other.modes
        self.steps += other.steps
        self.find = other.find


@dataclass
class Search(Sum):
    """One worker's search. ``bug``: of evidence/bugs, which is to be found; "": any in the true code."""

    first: int = 0
    bug: str = ""
    kept: list[Schedule] = field(default_factory=list)

    def outcomes(self) -> Iterator[Outcome]:
        dice = Random(f"search {self.first}")
        while True:
            seed = self.first + self.played
            if self.kept and dice.random() < MUTATED:
                # The latest ones more often: what they reached is not worn out yet.
                i = max(dice.randrange(len(self.kept)), dice.randrange(len(self.kept)))
                schedule = mutated(self.kept[i], dice.choice(self.kept), seed)
            else:
                schedule = drawn(seed)
            with broken(self.bug) if self.bug else nullcontext():
                outcome = play(schedule)
            if self.bug and outcome.violations and play(schedule).violations:
                outcome = replace(outcome, violations=[])  # not the work of the bug
            self.played += 1
            self.grants += outcome.grants
            self.modes[schedule.setup.mode] += 1
            self.steps += outcome.faults
            if not outcome.violations and outcome.states - self.states:
                self.kept = [*self.kept[-KEPT + 1 :], schedule]
            self.states |= outcome.states
            yield outcome


def shrunk(schedule: Schedule, seconds: float = 60.0) -> Schedule:
    """A shorter schedule with which the same goes wrong."""
    began, what = time.monotonic(), kind(play(schedule))

    def still(other: Schedule) -> bool:
        return time.monotonic() - began < seconds and kind(play(other)) == what

    size = max(1, len(schedule.steps) // 2)
    while size:
        i = 0
        while i < len(schedule.steps):
            shorter = without(schedule, range(i, i + size))
            if still(shorter):
                schedule = shorter
            else:
                i += size
        size = size // 2 if size > 1 else 0
    for change in ({"clients": 2}, {"clients": 3}, {"joined": True}, {"jitter": 0.0002}, {"durable": 0.0}):
        simpler = replace(schedule, setup=replace(schedule.setup, **change))
        if simpler != schedule and still(simpler):
            schedule = simpler
    return schedule


def kind(outcome: Outcome) -> str:
    """The first verdict without its numbers: what has to be the same when a schedule is made shorter."""
    if not outcome.violations:
        return ""
    return "".join(char for char in outcome.violations[0].what if not char.isdigit())


def _searched(first: int, *, bug: str, limit: float, seconds: float) -> Search:
    """Search until the first find, for so many seconds of the processor."""
    search = Search(first=first, bug=bug)
    for outcome in search.outcomes():
        if outcome.violations:
            search.find = Find(outcome.schedule, str(outcome.violations[0]), search.played)
        if search.find is not None or search.played >= limit or time.process_time() >= seconds:
            break
    search.cpu_s = time.process_time()
    return search


def hunt(*, first: int, workers: int, limit: int = 1 << 60, seconds: float, bug: str = "") -> Sum:
    """Search with so many processes until one finds something, or the time or the number is over."""
    began, found = time.monotonic(), Sum()
    work = partial(_searched, bug=bug, limit=limit / workers, seconds=seconds)
    with multiprocessing.Pool(workers) as pool:  # the end of the block stops the others
        parts = pool.imap_unordered(work, [first + i * 10_000_000 for i in range(workers)])
        for left in reversed(range(workers)):
            found.add(parts.next(timeout=20 * seconds + 60.0))
            if found.find is not None:
                found.played += left * found.find.after  # the others had played about as many
                break
    found.seconds = time.monotonic() - began
    return found
