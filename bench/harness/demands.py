"""The demands on rlock, and how each is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .figures import Estimate, estimate
from .results import Case, Results, Row, ratios_of
from .verdicts import Verdict

#: The end of the key of a contestant that looks for the lock every few milliseconds.
TUNED = "-tuned"
#: Fifty waiters that poll send more requests a second than this; others are woken.
POLLING_PER_S = 5.0

Measure = Callable[[Results], "Estimate | None"]


def judge(results: Results) -> list[Verdict]:
    """Each demand, on this run. Needs the values of the rounds, which only a fresh run has."""
    return [demand.judge(results) for demand in DEMANDS]


@dataclass(frozen=True)
class Demand:
    """A bound, and how to measure what it limits. `measure` gives None where the run lacks the figures."""

    verdict: Verdict
    measure: Measure

    def judge(self, results: Results) -> Verdict:
        found = self.measure(results)
        if found is None:
            return self.verdict
        if self.verdict.counted:
            return replace(self.verdict, value=found.value, rounds=found.rounds)
        return replace(self.verdict, value=found.value, low=found.low, high=found.high, rounds=found.rounds)


# -- measures -----------------------------------------------------------------------------------------------


def is_peer(key: str) -> bool:
    """Whether a row is another library's."""
    return key.split("-")[0] not in ("rlock", "floor")


def of_row(row: Row, figure: str) -> Estimate | None:
    """A figure of a row with its interval; without rounds it decides nothing."""
    if figure not in row.figures:
        return None
    value = row.figures[figure]
    return estimate(row.by_round.get(figure, [])) or Estimate(value, value, value, 0)


def of_two(row: Row, base: Row, figure: str) -> Estimate | None:
    """The ratio of two rows, round by round; without common rounds it decides nothing."""
    if figure not in row.figures or not base.figures.get(figure):
        return None
    value = row.figures[figure] / base.figures[figure]
    return estimate(ratios_of(row, base, figure)) or Estimate(value, value, value, 0)


def rows(results: Results, key: str, scenario: str, **case: object) -> Iterator[Row]:
    """The rows of a contestant, without those that were measured in another way than the case says."""
    for found in results.find(scenario, **case):
        if key in found.rows and not found.rows[key].differs:
            yield found.rows[key]


def peers(case: Case, figure: str, tuned: bool | None = None) -> list[Row]:
    """The rows of other libraries that have a figure."""
    found = {key: row for key, row in case.rows.items() if is_peer(key) and not row.differs}
    return [
        row for key, row in found.items() if row.figures.get(figure) and tuned in (None, key.endswith(TUNED))
    ]


def own(scenario: str, figure: str, **case: object) -> Measure:
    """A figure of rlock in one case."""
    return worst(scenario, figure, ("rlock",), False, **case)


def worst(
    scenario: str, figure: str, keys: Sequence[str] = ("rlock",), lowest: bool = False, **case: object
) -> Measure:
    """The highest value of these contestants in all cases, or the lowest."""

    def measure(results: Results) -> Estimate | None:
        every = (of_row(row, figure) for key in keys for row in rows(results, key, scenario, **case))
        found = [one for one in every if one is not None]
        return (min if lowest else max)(found, key=lambda one: one.value, default=None)

    return measure


def against(scenario: str, figure: str, base: str, ours: str = "rlock", **case: object) -> Measure:
    """A figure of ours as a multiple of the same figure of another row."""

    def measure(results: Results) -> Estimate | None:
        for found in results.find(scenario, **case):
            if ours in found.rows and base in found.rows:
                return of_two(found.rows[ours], found.rows[base], figure)
        return None

    return measure


def against_best_peer(
    scenario: str, figure: str, highest: bool = False, tuned: bool | None = None, **case: object
) -> Measure:
    """A figure of ours as a multiple of the same figure of the best peer."""

    def measure(results: Results) -> Estimate | None:
        for found in results.find(scenario, **case):
            others = peers(found, figure, tuned)
            if others and "rlock" in found.rows:
                best = (max if highest else min)(others, key=lambda row: row.figures[figure])
                return of_two(found.rows["rlock"], best, figure)
        return None

    return measure


def against_healthy(state: str, figure: str) -> Measure:
    """rlock with one master in trouble as a multiple of rlock with five healthy ones."""

    def measure(results: Results) -> Estimate | None:
        troubled = next(rows(results, "rlock", "degraded", state=state), None)
        healthy = next(rows(results, "rlock", "degraded", state="healthy"), None)
        return of_two(troubled, healthy, figure) if troubled and healthy else None

    return measure


def sequential_peers(results: Results) -> Estimate | None:
    """The fastest peer that asks the masters one after another, as a multiple of ours, at 2 ms of distance.

    At 20 ms round trips are all that counts: a sequential pair takes more of them than there are masters.
    """
    sequential = {
        key
        for case in results.find("wide_area", rtt_ms=[20, 20, 20, 20, 20])
        for key, row in case.rows.items()
        if is_peer(key) and row.figures.get("round_trips", 0.0) > case.case["masters"]
    }
    for case in results.find("wide_area", rtt_ms=[2, 2, 2, 2, 2]):
        found = [row for key, row in case.rows.items() if key in sequential and "p50_us" in row.figures]
        if found and "rlock" in case.rows:
            return of_two(min(found, key=lambda row: row.figures["p50_us"]), case.rows["rlock"], "p50_us")
    return None


def polling_peers(results: Results) -> Estimate | None:
    """Requests of our idle waiters, as a part of those of the polling peer with the fewest."""
    for case in results.find("idle", masters=5):
        polling = [
            row for row in peers(case, "requests_per_s") if row.figures["requests_per_s"] > POLLING_PER_S
        ]
        if polling and "rlock" in case.rows:
            fewest = min(polling, key=lambda row: row.figures["requests_per_s"])
            return of_two(case.rows["rlock"], fewest, "requests_per_s")
    return None


def failed_rows_of_ours(results: Results) -> Estimate | None:
    every = [
        row
        for scenario in results.scenarios
        for case in scenario.cases
        for key, row in case.rows.items()
        if key.split("-")[0] == "rlock"
    ]
    failed = float(sum(bool(row.error) and not str(row.error).startswith("Unsupported:") for row in every))
    return Estimate(failed, failed, failed, 1) if every else None


# -- the demands --------------------------------------------------------------------------------------------


def _at_most(scenario: str, text: str, limit: float, measure: Measure, unit: str = "x") -> Demand:
    return Demand(Verdict(scenario, text, limit, unit=unit), measure)


def _at_least(scenario: str, text: str, limit: float, measure: Measure, unit: str = "x") -> Demand:
    return Demand(Verdict(scenario, text, limit, at_most=False, unit=unit), measure)


def _never(scenario: str, text: str, measure: Measure, unit: str = "") -> Demand:
    return Demand(Verdict(scenario, text, 0, unit=unit, counted=True), measure)


#: The case of contention in which every contestant takes part.
EVERYBODY: dict[str, Any] = {"masters": 5, "processes": 8, "threads": 2}
BOTH = ("rlock", "rlock-fair")
FAR = [20, 20, 20, 20, 20]

DEMANDS: tuple[Demand, ...] = (
    _never("all", "rows of rlock that have an error", failed_rows_of_ours, "rows"),
    *(
        _at_most(
            "pair",
            f"N = {n}, acquire + release: to the packed fan-out over the same connections, all replies",
            1.25,
            against("pair", "p50_us", "floor-all", masters=n),
        )
        for n in (1, 3, 5)
    ),
    _at_most(
        "pair",
        "N = 5, acquire + release: to the packed fan-out that goes on at the majority",
        1.25,
        against("pair", "p50_us", "floor-majority", masters=5),
    ),
    _at_most("pair", "N = 5: to the fastest peer", 1.0, against_best_peer("pair", "p50_us", masters=5)),
    _at_most("pair", "N = 1: to redis-py's Lock", 1.0, against("pair", "p50_us", "redis-py", masters=1)),
    *(
        _at_most(
            "pair",
            f"N = {n}: rlock.asyncio to the blocking lock",
            1.5,
            against("pair", "p50_us", "rlock", "rlock-asyncio", masters=n),
        )
        for n in (1, 3, 5)
    ),
    *(
        _at_most("degraded", f"{state}: {name} to all healthy", limit, against_healthy(state, figure))
        for state in ("one dead", "one stalled")
        for name, figure, limit in (("p50", "p50_us", 1.2), ("p99", "p99_us", 2.0))
    ),
    _at_least(
        "wide_area",
        "masters 2 ms away: the fastest peer that asks one after another, to rlock",
        4.0,
        sequential_peers,
    ),
    *(
        _at_most(
            "wide_area",
            f"masters 20 ms away: {what}, in round trips to the q-th nearest",
            limit,
            own("wide_area", figure, rtt_ms=FAR),
            "",
        )
        for what, figure, limit in (
            ("an acquire", "acquire_round_trips", 1.25),
            ("a hand-off", "hand_off_round_trips", 2.25),
        )
    ),
    *(
        _at_least(
            "contention",
            f"8 processes x 2 threads, owner changes: to the best peer {which}",
            limit,
            against_best_peer("contention", "changes_per_s", highest=True, tuned=tuned, **EVERYBODY),
        )
        for which, limit, tuned in (
            ("at its default settings", 8.0, False),
            ("that polls every few ms", 3.0, True),
        )
    ),
    _at_most(
        "contention",
        "8 processes x 2 threads, CPU per section: to the thriftiest peer that polls every few ms",
        0.25,
        against_best_peer("contention", "cpu_ms_per_section", tuned=True, **EVERYBODY),
    ),
    _never(
        "contention", "N = 5, both modes: starved threads", worst("contention", "starved", BOTH, masters=5)
    ),
    _at_least(
        "contention",
        "N = 5, default mode: Jain's index",
        0.9,
        worst("contention", "jain", lowest=True, masters=5),
        "",
    ),
    _at_most(
        "contention",
        "N = 5, both modes: attempts per section",
        2.1,
        worst("contention", "attempts_per_section", BOTH, masters=5),
        "",
    ),
    _at_most(
        "contention",
        "N = 5: release to the next owner, p50",
        1000.0,
        worst("contention", "hand_off_p50_us", masters=5),
        "us",
    ),
    _never("contention", "sections that overlap", worst("contention", "overlaps", BOTH)),
    _at_most("wake_up", "N = 5: p50", 1000.0, own("wake_up", "p50_us", masters=5), "us"),
    _at_most("idle", "50 waiters, requests: to the best polling peer", 0.01, polling_peers),
    _at_most(
        "held",
        "10,000 locks on five masters, renewed: part of one core",
        5.0,
        own("held", "cpu_percent", masters=5, locks=10_000),
        "%",
    ),
    _never("held", "keys that were lost", worst("held", "keys_lost")),
)
