"""What a run consists of: the scenarios, in order, and how long each may take."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from .field import Entry
    from .results import Case

#: Seconds. Their sum, and the rest of a run, stay under a quarter of an hour.
BUDGETS_S = {
    "pair": 80.0,
    "nested": 20.0,
    "throughput": 55.0,
    "degraded": 110.0,
    "wide_area": 95.0,
    "contention": 195.0,
    "wake_up": 70.0,
    "idle": 55.0,
    "held": 50.0,
    "names": 70.0,
    "steps": 15.0,
}
#: Of each scenario in a quick run.
QUICK_S = 8.0


class ScenarioModule(Protocol):
    """A module of ``bench/scenarios/``. `run` starts and ends its own masters and contestants."""

    NAME: str
    TITLE: str
    QUESTION: str

    def run(self, entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]: ...


class UnknownScenario(Exception):
    """There is none of that name."""


def names() -> list[str]:
    """The scenarios that there are, in the order in which they run."""
    return [name for name in BUDGETS_S if importlib.util.find_spec(f"bench.scenarios.{name}")]


def choose(only: Collection[str] | None = None) -> list[str]:
    """Those that are asked for, in the order in which they run; all of them for None."""
    known = names()
    for name in only or ():
        if name not in known:
            raise UnknownScenario(f"no scenario {name!r}: there are {', '.join(known)}")
    return [name for name in known if only is None or name in only]


def load(name: str) -> ScenarioModule:
    """The module of a scenario."""
    return cast(ScenarioModule, importlib.import_module(f"bench.scenarios.{name}"))


def budget_s(name: str, quick: bool) -> float:
    """How long it may take."""
    return min(QUICK_S, BUDGETS_S[name]) if quick else BUDGETS_S[name]
