"""The scenarios of a run, in order, and how long each may take."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from .contestants import Contestant
    from .results import Case

#: Seconds. Their sum, with the start of the contestants, stays under a quarter of an hour.
BUDGETS_S = {
    "pair": 80.0,
    "nested": 15.0,
    "throughput": 90.0,
    "degraded": 110.0,
    "wide_area": 85.0,
    "contention": 240.0,
    "wake_up": 75.0,
    "idle": 55.0,
    "held": 80.0,
}
#: Of each scenario in a quick run.
QUICK_S = 8.0


class ScenarioModule(Protocol):
    """A module of ``bench/scenarios/``. `run` starts and ends its own masters and contestants."""

    NAME: str
    TITLE: str
    QUESTION: str

    def run(self, contestants: Sequence[Contestant], budget_s: float, quick: bool) -> Iterator[Case]: ...


def choose(only: Collection[str] | None = None) -> list[str]:
    """The scenarios of a list, in the order in which they run; all of them for None."""
    if unknown := sorted({*(only or ())} - {*BUDGETS_S}):
        raise ValueError(f"no scenario {', '.join(unknown)}: there are {', '.join(BUDGETS_S)}")
    return [name for name in BUDGETS_S if only is None or name in only]


def load(name: str) -> ScenarioModule:
    """The module of a scenario."""
    return cast(ScenarioModule, importlib.import_module(f"bench.scenarios.{name}"))
