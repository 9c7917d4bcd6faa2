"""The demands on rlock, and how each is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .contestants import BY_KEY
from .figures import Estimate, estimate
from .results import Case, Results, Row, ratios_of
from .verdicts import Verdict

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


def is_tuned(key: str) -> bool:
    """Whether it looks for the lock every few milliseconds."""
    return key.endswith("-tuned")


def in_python(key: str) -> bool:
    return BY_KEY[key].language == "Python"


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


def peers(case: Case, figure: str, among: Callable[[str], bool] = is_peer) -> list[Row]:
    """The rows of other libraries, or of some of them, that have a figure."""
    found = [row for key, row in case.rows.items() if is_peer(key) and among(key)]
    return [row for row in found if row.figures.get(figure) and not row.differs]


def worst(
    scenario: str, figure: str, keys: Sequence[str] = ("rlock",), lowest: bool = False, **case: object
) -> Measure:
    """The highest value of these contestants in all cases of a kind, or the lowest."""

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
    scenario: str,
    figure: str,
    highest: bool = False,
    among: Callable[[str], bool] = is_peer,
    **case: object,
) -> Measure:
    """A figure of ours as a multiple of the same figure of the best peer."""

    def measure(results: Results) -> Estimate | None:
        for found in results.find(scenario, **case):
            others = peers(found, figure, among)
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
FAR, NEAR_AND_FAR = [20, 20, 20, 20, 20], [1, 1, 20, 20, 80]

DEMANDS: tuple[Demand, ...] = (
    _never("all", "rows of rlock that have an error", failed_rows_of_ours, "rows"),
    _at_most("pair", "N = 5: to the fastest peer", 1.0, against_best_peer("pair", "p50_us", masters=5)),
    *(
        _at_most("pair", f"N = {n}: {what}", limit, against("pair", "p50_us", base, ours, masters=n))
        for n, what, limit, base, ours in (
            (1, "to the packed fan-out over the same connections, all replies", 1.25, "floor-all", "rlock"),
            (5, "to the packed fan-out over the same connections, all replies", 1.25, "floor-all", "rlock"),
            (5, "to the packed fan-out that goes on at the majority", 1.25, "floor-majority", "rlock"),
            (1, "to redis-py's Lock", 1.0, "redis-py", "rlock"),
            (1, "rlock.asyncio to the blocking lock", 1.5, "rlock", "rlock-asyncio"),
            (5, "rlock.asyncio to the blocking lock", 1.5, "rlock", "rlock-asyncio"),
        )
    ),
    _at_least(
        "throughput",
        "N = 1, 8 threads with their own locks: to the best Python peer",
        1.0,
        against_best_peer("throughput", "pairs_per_s", highest=True, among=in_python, masters=1),
    ),
    _at_least(
        "throughput",
        "N = 5, 8 threads with their own locks: pairs",
        4500.0,
        worst("throughput", "pairs_per_s", masters=5, processes=1, threads=8),
        "a second",
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
            f"{text}, in round trips to the q-th nearest",
            limit,
            worst("wide_area", figure, rtt_ms=rtt_ms),
            "",
        )
        for text, limit, figure, rtt_ms in (
            ("masters 20 ms away: an acquire", 1.25, "acquire_round_trips", FAR),
            ("masters 20 ms away: a hand-off", 1.15, "hand_off_round_trips", FAR),
            ("masters 1, 1, 20, 20 and 80 ms away: a hand-off", 1.15, "hand_off_round_trips", NEAR_AND_FAR),
        )
    ),
    *(
        _at_least(
            "contention",
            f"8 processes x 2 threads, owner changes: to the best peer {which}",
            limit,
            against_best_peer("contention", "changes_per_s", highest=True, among=among, **EVERYBODY),
        )
        for which, limit, among in (
            ("at its default settings", 8.0, lambda key: not is_tuned(key)),
            ("that polls every few ms", 3.0, is_tuned),
        )
    ),
    _at_most(
        "contention",
        "8 processes x 2 threads, CPU per section: to the thriftiest peer that polls every few ms",
        0.25,
        against_best_peer("contention", "cpu_ms_per_section", among=is_tuned, **EVERYBODY),
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
        "N = 5, both modes: attempts per section, with the confirmation of a hand-off",
        2.3,
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
    *(
        _at_most(
            "contention",
            f"8 processes x 2 threads, {name} per section: fair mode to default mode",
            1.3,
            against("contention", figure, "rlock", "rlock-fair", **EVERYBODY),
        )
        for name, figure in (("requests", "requests_per_section"), ("CPU", "cpu_ms_per_section"))
    ),
    *(
        _at_most("wake_up", f"N = {n}: to {what}", limit, against("wake_up", "p50_us", key, masters=n))
        for n, what, limit, key in ((1, "python-redis-lock", 1.0, "python-redis-lock"),)
    ),
    _at_most("idle", "50 waiters, requests: to the best polling peer", 0.01, polling_peers),
    _at_most(
        "idle",
        "N = 5, 50 fair waiters: requests",
        13.0,
        worst("idle", "requests_per_s", ("rlock-fair",), masters=5),
        "a second",
    ),
    _at_most(
        "held",
        "10,000 locks on five masters, renewed: part of one core",
        5.0,
        worst("held", "cpu_percent", masters=5, locks=10_000),
        "%",
    ),
    _never("held", "keys that were lost", worst("held", "keys_lost")),
)
