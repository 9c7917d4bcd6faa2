"""The seeds of random schedules: new ones each day, and ``RLOCK_SEED=20261122`` repeats a day."""

from __future__ import annotations

import os
from datetime import UTC, datetime

VARIABLE = "RLOCK_SEED"
SEEDS_OF_A_DAY = 1_000_000  # a day has more seeds than any run plays, so no two days share one


def seed_of_the_day() -> int:
    """The environment's choice, or today's date in UTC as one number."""
    return int(os.environ.get(VARIABLE) or f"{datetime.now(UTC):%Y%m%d}")


def first_seed() -> int:
    return seed_of_the_day() * SEEDS_OF_A_DAY


def repeat() -> str:
    """How a person repeats the random schedules of this run."""
    return f"random schedules: {VARIABLE}={seed_of_the_day()} repeats those of this run"
