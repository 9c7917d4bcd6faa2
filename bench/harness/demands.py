"""The demands on rlock, and how each is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from .contestants import BY_KEY, family, tuned
from .figures import Estimate, estimate
from .results import Results, Row, ratios_of
from .verdicts import Verdict

#: Fifty waiters that poll send more requests a second than this; others are woken.
POLLING_PER_S = 5.0

#: It gives None where the run lacks the figures.
Measure = Callable[[Results], "Estimate | None"]
Among = Callable[[str, Row], bool]


def judge(results: Results) -> list[Verdict]:
    """Each demand, on this run. Needs the values of the rounds, which only a fresh run has."""
    found = []
    for verdict, measure in DEMANDS:
        if (measured := measure(results)) is not None:
            verdict = replace(verdict, value=measured.value, rounds=measured.rounds)
            if not verdict.counted:
                verdict = replace(verdict, low=measured.low, high=measured.high)
        found.append(verdict)
    return found


# -- measures -----------------------------------------------------------------------------------------------


def of_two(row: Row, base: Row, figure: str) -> Estimate:
    """The ratio of two rows, round by round; without common rounds it decides nothing."""
    value = row.figures[figure] / base.figures[figure]
    return estimate(ratios_of(row, base, figure)) or Estimate(value, value, value, 0)


def worst(
    scenario: str, figure: str, keys: Sequence[str] = ("rlock",), lowest: bool = False, **case: object
) -> Measure:
    """The highest value of these contestants in all cases of a kind, or the lowest."""

    def measure(results: Results) -> Estimate | None:
        found = []
        for one in results.find(scenario, **case):
            for row in (one.rows[key] for key in keys if key in one.rows):
                if figure in row.figures and not row.differs:
                    value = row.figures[figure]
                    rounds = row.by_round.get(figure, [])
                    found.append(estimate(rounds) or Estimate(value, value, value, 0))
        return (min if lowest else max)(found, key=lambda one: one.value, default=None)

    return measure


def against(
    scenario: str, figure: str, base: str | Among, ours: str = "rlock", highest: bool = False, **case: object
) -> Measure:
    """A figure of ours as a multiple of the same figure of another row, or of the best row among some."""

    def measure(results: Results) -> Estimate | None:
        for found in results.find(scenario, **case):
            others = [
                row
                for key, row in found.rows.items()
                if row.figures.get(figure)
                and not row.differs
                and (key == base if isinstance(base, str) else base(key, row))
            ]
            if others and figure in found.rows.get(ours, Row()).figures:
                best = (max if highest else min)(others, key=lambda row: row.figures[figure])
                return of_two(found.rows[ours], best, figure)
        return None

    return measure


def against_healthy(state: str, figure: str) -> Measure:
    """rlock with one master in trouble as a multiple of rlock with five healthy ones."""

    def measure(results: Results) -> Estimate | None:
        both = [
            case.rows["rlock"]
            for each in (state, "healthy")
            for case in results.find("degraded", state=each)
            if figure in case.rows.get("rlock", Row()).figures
        ]
        return of_two(both[0], both[1], figure) if len(both) == 2 else None

    return measure


def failed_rows_of_ours(results: Results) -> Estimate | None:
    errors = [
        row.error or ""
        for scenario in results.scenarios
        for case in scenario.cases
        for key, row in case.rows.items()
        if family(key) == "rlock"
    ]
    failed = float(sum(bool(error) and not error.startswith("Unsupported:") for error in errors))
    return Estimate(failed, failed, failed, 1) if errors else None


def peer(key: str, row: Row) -> bool:
    return family(key) == "peer"


def usual_peer(key: str, row: Row) -> bool:
    return peer(key, row) and not tuned(key)


def tuned_peer(key: str, row: Row) -> bool:
    return peer(key, row) and tuned(key)


def python_peer(key: str, row: Row) -> bool:
    return peer(key, row) and BY_KEY[key].language == "Python"


def polling_peer(key: str, row: Row) -> bool:
    return peer(key, row) and row.figures["requests_per_s"] > POLLING_PER_S


# -- the demands --------------------------------------------------------------------------------------------

Demand = tuple[Verdict, Measure]


def _at_most(scenario: str, limit: float, text: str, measure: Measure, unit: str = "x") -> Demand:
    return Verdict(scenario, text, limit, unit=unit), measure


def _at_least(scenario: str, limit: float, text: str, measure: Measure, unit: str = "x") -> Demand:
    return Verdict(scenario, text, limit, at_most=False, unit=unit), measure


def _never(scenario: str, text: str, measure: Measure, unit: str = "") -> Demand:
    return Verdict(scenario, text, 0, unit=unit, counted=True), measure


#: The case of contention in which every contestant takes part.
ALL = "8 processes x 2 threads"
BOTH = ("rlock", "rlock-fair")
PACKED = "the packed fan-out over the same connections, all replies"
MAJORITY = "the packed fan-out that goes on at the majority"
TASKS = "rlock.asyncio to the blocking lock"
FAR, TRIPS = "masters 20 ms away", "in round trips to the q-th nearest"
pair = partial(against, "pair", "p50_us")
contended = partial(against, "contention", masters=5, processes=8, threads=2)
contention = partial(worst, "contention", masters=5)
far = partial(worst, "wide_area", rtt_ms=[20] * 5)

DEMANDS: tuple[Demand, ...] = (
    _never("all", "rows of rlock that have an error", failed_rows_of_ours, "rows"),
    _at_most("pair", 1.0, "N = 5: to the fastest peer", pair(peer, masters=5)),
    _at_most("pair", 1.25, f"N = 1: to {PACKED}", pair("floor-all", masters=1)),
    _at_most("pair", 1.25, f"N = 5: to {PACKED}", pair("floor-all", masters=5)),
    _at_most("pair", 1.25, f"N = 5: to {MAJORITY}", pair("floor-majority", masters=5)),
    _at_most("pair", 1.0, "N = 1: to redis-py's Lock", pair("redis-py", masters=1)),
    _at_most("pair", 1.3, "N = 1: to sherlock", pair("sherlock", masters=1)),
    _at_most("pair", 1.5, f"N = 1: {TASKS}", pair("rlock", "rlock-asyncio", masters=1)),
    _at_most("pair", 1.5, f"N = 5: {TASKS}", pair("rlock", "rlock-asyncio", masters=5)),
    _at_least(
        "throughput",
        1.0,
        "N = 1, 8 threads with their own locks: to the best Python peer",
        against("throughput", "pairs_per_s", python_peer, highest=True, masters=1),
    ),
    _at_least(
        "throughput",
        4500.0,
        "N = 5, 8 threads with their own locks: pairs",
        worst("throughput", "pairs_per_s", masters=5, processes=1, threads=8),
        "a second",
    ),
    *(
        _at_most("degraded", limit, f"{state}: {name} to all healthy", against_healthy(state, f"{name}_us"))
        for state in ("one dead", "one stalled")
        for name, limit in (("p50", 1.2), ("p99", 2.0))
    ),
    _at_most("wide_area", 1.25, f"{FAR}: an acquire, {TRIPS}", far("acquire_round_trips"), ""),
    _at_most("wide_area", 1.15, f"{FAR}: a hand-off, {TRIPS}", far("hand_off_round_trips"), ""),
    _at_most(
        "wide_area",
        1.15,
        f"masters 1, 1, 20, 20 and 80 ms away: a hand-off, {TRIPS}",
        worst("wide_area", "hand_off_round_trips", rtt_ms=[1, 1, 20, 20, 80]),
        "",
    ),
    *(
        _at_least(
            "contention",
            limit,
            f"{ALL}, owner changes: to the best peer {which}",
            contended("changes_per_s", among, highest=True),
        )
        for which, limit, among in (
            ("at its default settings", 8.0, usual_peer),
            ("that polls every few ms", 3.0, tuned_peer),
        )
    ),
    _at_most(
        "contention",
        0.25,
        f"{ALL}, CPU per section: to the thriftiest peer that polls every few ms",
        contended("cpu_ms_per_section", tuned_peer),
    ),
    _never("contention", "N = 5, both modes: starved threads", contention("starved", BOTH)),
    _at_least("contention", 0.9, "N = 5, default mode: Jain's index", contention("jain", lowest=True), ""),
    _at_most(
        "contention",
        2.3,
        "N = 5, both modes: attempts per section, with the confirmation of a hand-off",
        contention("attempts_per_section", BOTH),
        "",
    ),
    _at_most(
        "contention", 1000.0, "N = 5: release to the next owner, p50", contention("hand_off_p50_us"), "us"
    ),
    _never("contention", "sections that overlap", worst("contention", "overlaps", BOTH)),
    *(
        _at_most(
            "contention",
            1.3,
            f"{ALL}, {name} per section: fair mode to default mode",
            contended(figure, "rlock", "rlock-fair"),
        )
        for name, figure in (("requests", "requests_per_section"), ("CPU", "cpu_ms_per_section"))
    ),
    _at_most(
        "wake_up",
        1.0,
        "N = 1: to python-redis-lock",
        against("wake_up", "p50_us", "python-redis-lock", masters=1),
    ),
    _at_most(
        "idle",
        0.01,
        "50 waiters, requests: to the best polling peer",
        against("idle", "requests_per_s", polling_peer, masters=5),
    ),
    _at_most(
        "idle",
        13.0,
        "N = 5, 50 fair waiters: requests",
        worst("idle", "requests_per_s", ("rlock-fair",), masters=5),
        "a second",
    ),
    _at_most(
        "held",
        5.0,
        "10,000 locks on five masters, renewed: part of one core",
        worst("held", "cpu_percent", masters=5, locks=10_000),
        "%",
    ),
    _never("held", "keys that were lost", worst("held", "keys_lost")),
)
