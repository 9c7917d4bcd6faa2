"""What it costs to acquire a lock again that one holds already, where the lock is reentrant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.harness.field import Entry
from bench.harness.lineup import Clock
from bench.harness.results import Case

from .pair import cases

NAME = "nested"
TITLE = "A lock that one holds already"
QUESTION = "How long does an acquire and release take inside of another one?"


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    # A floor is a pair of commands; nested it would be the same once more.
    locks = [entry for entry in entries if entry.family != "floor"]
    yield from cases(locks, Clock(budget_s), (5,) if quick else (1, 5), "nested", quick)
