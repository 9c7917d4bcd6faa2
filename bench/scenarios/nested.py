"""Acquire and release of a lock that its owner holds already, for locks that are reentrant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.harness.contestants import Contestant
from bench.harness.results import Case
from bench.harness.turns import Clock

from .pair import cases

NAME = "nested"
TITLE = "A lock that its owner holds already"
QUESTION = "How long do a nested acquire and release take?"


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    # A floor is a pair of commands; nested it would be the same once more.
    locks = [contestant for contestant in contestants if contestant.family != "floor"]
    for case in cases(locks, Clock(budget_s), (5,) if quick else (1, 5), quick, nested=True):
        unsupported = [key for key, row in case.rows.items() if (row.error or "").startswith("Unsupported:")]
        for key in unsupported:
            del case.rows[key]
        yield case
