"""The scenarios of a run, in order, and how long each may take.

Each is a module of ``bench/scenarios/``, whose `run` starts and ends its own masters and contestants.
"""

from __future__ import annotations

from collections.abc import Collection

#: Seconds. Their sum, with the start of the contestants, stays under a quarter of an hour.
BUDGETS_S = {
    "pair": 80.0,
    "nested": 15.0,
    "throughput": 90.0,
    "degraded": 110.0,
    "wide_area": 85.0,
    "contention": 240.0,
    "read_write": 60.0,
    "wake_up": 75.0,
    "idle": 55.0,
    "held": 80.0,
}
#: Of each scenario in a quick run.
QUICK_S = 8.0


def choose(only: Collection[str] | None = None) -> list[str]:
    """The scenarios of a list, in the order in which they run; all of them for None."""
    if unknown := sorted({*(only or ())} - {*BUDGETS_S}):
        raise ValueError(f"no scenario {', '.join(unknown)}: there are {', '.join(BUDGETS_S)}")
    return [name for name in BUDGETS_S if only is None or name in only]
