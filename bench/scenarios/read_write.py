"""Eight processes want one read-write lock, most of them as readers: how often do they get in?

As in `contention`, whose figures these are. ``writer_p99_ms`` and ``writer_wait_ms``: from the call of a
writer's acquire to its return.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.harness.contestants import Contestant
from bench.harness.contests import Contests, Setup
from bench.harness.figures import LEAST_ROUNDS
from bench.harness.masters import Masters
from bench.harness.results import Case
from bench.harness.turns import Clock
from bench.scenarios.contention import HOLD_MS, case_of

NAME = "read_write"
TITLE = "Readers and writers"
QUESTION = "How often do readers and writers get in, and how long does a writer wait?"

SHARES = (50, 90, 99)
WINDOWS_S = 0.5, 1.5


def run(contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]:
    clock, setup = Clock(budget_s), Setup(5, 2 if quick else 8, 1)
    rounds, lead_s, windows_s = (1, 0.1, (0.15, 0.3)) if quick else (LEAST_ROUNDS, 0.3, WINDOWS_S)
    settings = [(size, share) for size in (5, 1) for share in (SHARES[:1] if quick else SHARES)]
    for i, (size, share) in enumerate(settings):
        some = [
            one
            for one in contestants
            if NAME in (one.scenarios or ()) and (size == 1 or one.masters == "many")
        ]
        load = {"hold_us": HOLD_MS * 1000, "readers": share / 100}
        with (
            Masters(size) as masters,
            Contests(masters.urls, random.Random(NAME), rounds, lead_s, windows_s, **load) as contests,
        ):
            part = clock.part(1 / (len(settings) - i))
            case = case_of(contests, replace(setup, masters=size), some, part)
        yield replace(case, case={**case.case, "readers": share})
