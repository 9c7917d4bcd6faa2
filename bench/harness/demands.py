"""What is demanded of rlock, and whether a run kept it. Computed from its document, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .results import Case, Results

#: How the keys of those end that look for the lock every few milliseconds.
TUNED = "-tuned"
#: Fifty waiters that poll send more than so many requests a second; others are woken.
POLLING_PER_S = 5.0

Value = Callable[[Results], "float | None"]


@dataclass(frozen=True)
class Demand:
    """One of them. `value` is None where the run has not what it needs."""

    scenario: str
    text: str
    bound: float
    value: Value
    #: Whether the value may be lower than the bound, or higher.
    at_most: bool = True
    unit: str = "x"

    def keeps(self, value: float) -> bool:
        """Whether this value is good enough."""
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True)
class Verdict:
    """A demand, and what came out. `kept` is None where nothing was measured."""

    demand: Demand
    value: float | None

    @property
    def kept(self) -> bool | None:
        return None if self.value is None else self.demand.keeps(self.value)

    def __str__(self) -> str:
        demand = self.demand
        bound = f"{'at most' if demand.at_most else 'at least'} {demand.bound:g} {demand.unit}".strip()
        word = {None: "not measured", True: "kept", False: "MISSED"}[self.kept]
        value = "" if self.value is None else f"{self.value:.3g} {demand.unit}".strip()
        return f"{word:<12} {value:>10} ({bound})  {demand.scenario}: {demand.text}"


def judge(results: Results) -> list[Verdict]:
    """Each demand, on this run."""
    return [Verdict(demand, demand.value(results)) for demand in DEMANDS]


# -- out of the document ----------------------------------------------------------------------------------


def is_peer(key: str) -> bool:
    """Whether a row is another library's."""
    return key.split("-")[0] not in ("rlock", "floor")


def _figures(cases: Iterable[Case], key: str, name: str) -> Iterator[float]:
    for case in cases:
        if key in case.rows and name in case.rows[key].figures:
            yield case.rows[key].figures[name]


def _of_peers(case: Case, name: str, tuned: bool | None = None) -> list[float]:
    return [
        row.figures[name]
        for key, row in case.rows.items()
        if is_peer(key) and name in row.figures and tuned in (None, key.endswith(TUNED))
    ]


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _first(values: Iterable[float]) -> float | None:
    return next(iter(values), None)


def own(scenario: str, name: str, key: str = "rlock", **case: object) -> Value:
    """A figure of ours."""
    return lambda results: _first(_figures(results.find(scenario, **case), key, name))


def worst(
    scenario: str, name: str, keys: Iterable[str] = ("rlock",), lowest: bool = False, **case: object
) -> Value:
    """The highest of ours in all cases, or the lowest."""
    keys = tuple(keys)

    def value(results: Results) -> float | None:
        found = [one for key in keys for one in _figures(results.find(scenario, **case), key, name)]
        return (min if lowest else max)(found) if found else None

    return value


def against(scenario: str, name: str, key: str, ours: str = "rlock", **case: object) -> Value:
    """A figure of ours as a multiple of that of another row."""

    def value(results: Results) -> float | None:
        base = _first(_figures(results.find(scenario, **case), key, name))
        return _ratio(_first(_figures(results.find(scenario, **case), ours, name)), base)

    return value


def compared(key: str, ours: str = "rlock", **case: object) -> Value:
    """A pair of ours as a multiple of that of another row: by rounds, where the run has compared them so."""
    medians = against("pair", "p50_us", key, ours, **case)

    def value(results: Results) -> float | None:
        rows = [found.rows[ours] for found in results.find("pair", **case) if ours in found.rows]
        told = _first(row.ratios[key] for row in rows if key in row.ratios)
        return medians(results) if told is None else told

    return value


def against_peers(
    scenario: str, name: str, best: Callable[[list[float]], float], tuned: bool | None = None, **case: object
) -> Value:
    """A figure of ours as a multiple of the best one of the peers."""

    def value(results: Results) -> float | None:
        for found in results.find(scenario, **case):
            peers = _of_peers(found, name, tuned)
            if peers and (mine := _first(_figures([found], "rlock", name))) is not None:
                return _ratio(mine, best(peers))
        return None

    return value


def compared_with_healthy(state: str, ratio: str) -> Value:
    def value(results: Results) -> float | None:
        for case in results.find("degraded", state=state):
            if "rlock" in case.rows:
                return case.rows["rlock"].ratios.get(ratio)
        return None

    return value


def of_sequential_peers(results: Results) -> float | None:
    """The fastest peer that asks masters one after another, as a multiple of ours, where all are 2 ms away.

    Which these are shows where round trips are all that counts: a pair takes them more than one a master.
    """
    sequential = {
        key
        for case in results.find("wide_area", rtt_ms=[20, 20, 20, 20, 20])
        for key, row in case.rows.items()
        if is_peer(key) and row.figures.get("round_trips", 0.0) > case.case["masters"]
    }
    near = list(results.find("wide_area", rtt_ms=[2, 2, 2, 2, 2]))
    found = [p50 for key in sequential for p50 in _figures(near, key, "p50_us")]
    return _ratio(min(found), _first(_figures(near, "rlock", "p50_us"))) if found else None


def of_polling_peers(results: Results) -> float | None:
    """Requests of our idle waiters, as a part of those of the peer that polls with the fewest."""
    for case in results.find("idle", masters=5):
        polling = [rate for rate in _of_peers(case, "requests_per_s") if rate > POLLING_PER_S]
        if polling:
            return _ratio(_first(_figures([case], "rlock", "requests_per_s")), min(polling))
    return None


def errors_of_ours(results: Results) -> float | None:
    rows = [
        row
        for scenario in results.scenarios
        for case in scenario.cases
        for key, row in case.rows.items()
        if key.split("-")[0] == "rlock"
    ]
    failed = [row for row in rows if row.error and not row.error.startswith("Unsupported:")]
    return float(len(failed)) if rows else None


#: The main comparison of contention.
FIELD = {"masters": 5, "processes": 8, "threads": 2}
BOTH = ("rlock", "rlock-fair")

DEMANDS: tuple[Demand, ...] = (
    Demand("all", "no row of rlock has an error", 0, errors_of_ours, unit="rows"),
    *(
        Demand(
            "pair",
            f"N = {masters}, acquire + release: to the packed fan-out over the same connections, all replies",
            1.25,
            compared("floor-all", masters=masters),
        )
        for masters in (1, 3, 5)
    ),
    Demand(
        "pair",
        "N = 5, acquire + release: to the packed fan-out that goes on at the majority",
        1.25,
        compared("floor-majority", masters=5),
    ),
    Demand("pair", "N = 5: to the fastest peer", 1.0, against_peers("pair", "p50_us", min, masters=5)),
    Demand("pair", "N = 1: to redis-py's Lock", 1.0, compared("redis-py", masters=1)),
    *(
        Demand(
            "pair",
            f"N = {masters}: rlock.asyncio to the blocking lock",
            1.5,
            compared("rlock", "rlock-asyncio", masters=masters),
        )
        for masters in (1, 3, 5)
    ),
    *(
        demand
        for state in ("one dead", "one stalled")
        for demand in (
            Demand("degraded", f"{state}: p50 to all healthy", 1.2, compared_with_healthy(state, "healthy")),
            Demand(
                "degraded", f"{state}: p99 to all healthy", 2.0, compared_with_healthy(state, "healthy_p99")
            ),
        )
    ),
    Demand(
        "wide_area",
        "masters 2 ms away: the fastest peer that asks one after another, to rlock",
        4.0,
        of_sequential_peers,
        at_most=False,
    ),
    *(
        Demand(
            "wide_area",
            f"masters 20 ms away: {what}, in round trips to the q-th nearest",
            bound,
            own("wide_area", figure, rtt_ms=[20, 20, 20, 20, 20]),
            unit="",
        )
        for what, figure, bound in (
            ("an acquire", "acquire_round_trips", 1.25),
            ("a hand-off", "hand_off_round_trips", 2.25),
        )
    ),
    *(
        Demand(
            "contention",
            f"8 processes x 2 threads, owner changes: to the best peer {which}",
            bound,
            against_peers("contention", "changes_per_s", max, tuned=tuned, **FIELD),
            at_most=False,
        )
        for which, bound, tuned in (
            ("at its default settings", 8.0, False),
            ("that polls every few ms", 3.0, True),
        )
    ),
    Demand(
        "contention",
        "8 processes x 2 threads, CPU per section: to the thriftiest peer that polls every few ms",
        0.25,
        against_peers("contention", "cpu_ms_per_section", min, tuned=True, **FIELD),
    ),
    Demand(
        "contention",
        "N = 5, both modes: threads that got nothing",
        0,
        worst("contention", "starved", BOTH, masters=5),
        unit="",
    ),
    Demand(
        "contention",
        "N = 5, default mode: Jain's index",
        0.9,
        worst("contention", "jain", lowest=True, masters=5),
        at_most=False,
        unit="",
    ),
    Demand(
        "contention",
        "N = 5, both modes: attempts per section",
        2.1,
        worst("contention", "attempts_per_section", BOTH, masters=5),
        unit="",
    ),
    Demand(
        "contention",
        "N = 5: release to the next owner, p50",
        1000.0,
        worst("contention", "hand_off_p50_us", masters=5),
        unit="us",
    ),
    Demand("contention", "sections that overlap", 0, worst("contention", "overlaps", BOTH), unit=""),
    Demand("wake_up", "N = 5: p50", 1000.0, own("wake_up", "p50_us", masters=5), unit="us"),
    Demand("idle", "50 waiters, requests: to the best polling peer", 0.01, of_polling_peers),
    Demand(
        "held",
        "10,000 locks on five masters, renewed: part of one core",
        5.0,
        own("held", "cpu_percent", masters=5),
        unit="%",
    ),
    Demand("held", "keys that were lost", 0, worst("held", "keys_lost"), unit=""),
)
