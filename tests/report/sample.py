"""Results of a run that never took place: invented figures, for the tests of what is made of figures."""

from __future__ import annotations

import random
from collections.abc import Mapping

from bench.harness.results import Case, Results, Row, Scenario

OURS = ("rlock", "rlock-fair", "rlock-asyncio")
FLOORS = ("floor-all", "floor-majority", "floor-c")
ONE = (
    "redis-py",
    "redis-py-tuned",
    "python-redis-lock",
    "redis-lock-py",
    "redisson-rlock",
    "redisson-fairlock",
)
MANY = (
    "pottery", "pottery-tuned", "redlock-ng", "redlock-ng-tuned", "redlock-plus", "redlock-plus-tuned",
    "aioredlock", "aioredlock-tuned", "node-redlock", "node-redlock-tuned", "redisson-redlock", "redsync",
    "redsync-tuned",
)  # fmt: skip
#: One that fails everywhere, with what an error's text may hold.
BROKEN = "redlock-plus"
ERROR = "Failed: it has ended: KeyError: 'a|b' <b>`x`</b>"


def keys(masters: int, floors: bool = False) -> list[str]:
    return [*OURS, *(FLOORS if floors else ()), *(ONE if masters == 1 else ()), *MANY]


class Dice:
    """Figures that are the same for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._pace = {key: self._random.uniform(1.2, 8) for key in (*ONE, *MANY)}

    def pace(self, key: str) -> float:
        ours = {
            "floor-c": 0.6,
            "floor-majority": 0.62,
            "floor-all": 1.0,
            "rlock-fair": 1.2,
            "rlock-asyncio": 1.7,
        }
        return ours.get(key) or self._pace.get(key, 1.15)

    def times(self, us: float) -> dict[str, float]:
        p50 = us * self._random.uniform(0.9, 1.1)
        return {
            "p50_us": p50,
            "p99_us": p50 * 3.1,
            "p50_low_us": p50 * 0.95,
            "p50_high_us": p50 * 1.2,
            "count": 900.0,
        }

    def case(self, settings: Mapping[str, object], chosen: list[str], us: float) -> Case:
        case = Case(dict(settings), {key: Row(self.times(us * self.pace(key))) for key in chosen})
        if BROKEN in case.rows:
            case.rows[BROKEN] = Row(error=ERROR)
        return case


def sample(seed: int = 1) -> Results:
    """A full run."""
    dice = Dice(seed)
    scenarios = [
        Scenario("pair", "A lock that nobody else wants", "How long does a pair take?"),
        Scenario("nested", "A lock that one holds already", "How long inside of another one?"),
        Scenario("throughput", "Many locks at a time", "How many pairs a second?"),
        Scenario("degraded", "A master that is ill", "What does it cost?"),
        Scenario("wide_area", "Masters far away", "How many round trips?"),
        Scenario("contention", "Many want one lock", "How often does it change hands?"),
        Scenario("wake_up", "Wake-up of one waiter", "How long after a release?"),
        Scenario("idle", "Those who wait", "What do they send?"),
        Scenario("held", "Ten thousand locks", "What does it cost to keep them?"),
        Scenario("names", "Many names", "What is left of them?"),
        Scenario("steps", "Where the time of a pair goes", "How long is each step?"),
    ]
    found = {scenario.name: scenario for scenario in scenarios}
    for masters in (1, 3, 5):
        case = dice.case({"masters": masters}, keys(masters, floors=True), 150 + 60 * masters)
        case.compare("p50_us", FLOORS)
        found["pair"].cases.append(case)
        found["wake_up"].cases.append(
            dice.case({"processes": 2, "masters": masters}, keys(masters), 300 * masters)
        )
    for size in ((1, 1), (1, 8), (1, 32), (4, 1)):
        case = dice.case({"masters": 5, "processes": size[0], "threads": size[1]}, keys(5), 1)
        for key, row in case.rows.items():
            if not row.error:
                rate = 2300 / dice.pace(key)
                row.figures = {
                    "pairs_per_s": rate,
                    "pairs_per_s_low": rate * 0.9,
                    "pairs_per_s_high": rate * 1.1,
                }
        found["throughput"].cases.append(case)
    for state, ill in (("healthy", 1.0), ("one dead", 1.1), ("one stalled", 1.15), ("one 20 ms away", 1.3)):
        case = dice.case({"masters": 5, "state": state}, keys(5), 500)
        for key, row in case.rows.items():
            if not row.error:
                row.ratios = {"healthy": ill ** (dice.pace(key) * 2), "healthy_p99": ill * 1.5}
        if state == "one stalled":
            case.rows["aioredlock"] = Row(error="Failed: no answer within 12 s")
        found["degraded"].cases.append(case)
    for rtt_ms in ([2] * 5, [20] * 5, [1, 1, 20, 20, 80], [80] * 5):
        case = dice.case(
            {"masters": 5, "rtt_ms": rtt_ms, "round_trip_us": 1e3 * rtt_ms[2]}, keys(5), 1e3 * rtt_ms[2]
        )
        for row in case.rows.values():
            if not row.error:
                trips = 2 * row.figures["p50_us"] / (1e3 * rtt_ms[2])
                row.figures |= {
                    "round_trips": trips,
                    "acquire_round_trips": trips / 2,
                    "hand_off_round_trips": trips,
                }
        found["wide_area"].cases.append(case)
    found["nested"].cases.append(dice.case({"masters": 5}, ["rlock"], 3))
    few = ["rlock", "rlock-fair", "redlock-ng"]
    for settings, chosen in (
        ({"masters": 5, "processes": 8, "threads": 2, "hold_ms": 1}, keys(5)),
        *(({"masters": 5, "processes": n, "threads": 1, "hold_ms": 1}, few) for n in (2, 8, 24)),
        ({"masters": 1, "processes": 8, "threads": 2, "hold_ms": 1}, keys(1)),
    ):  # fmt: skip
        case = dice.case(settings, list(chosen), 1)
        for key, row in case.rows.items():
            if not row.error:
                changes = 700 / dice.pace(key) ** 3
                row.figures = {
                    "sections_per_s": 700 / dice.pace(key), "changes_per_s": changes,
                    "changes_per_s_low": changes * 0.9, "changes_per_s_high": changes * 1.1, "jain": 0.97,
                    "starved": 0.0, "longest_wait_ms": 40 * dice.pace(key), "overlaps": 0.0,
                    "cpu_ms_per_section": 0.9 * dice.pace(key) ** 2, "hand_off_p50_us": 800 * dice.pace(key),
                }  # fmt: skip
        found["contention"].cases.append(case)
    for name, settings, figures in (
        ("idle", {"masters": 5, "waiters": 50}, {"requests_per_s": 800.0, "cpu_percent": 12.0}),
        ("held", {"masters": 5, "locks": 10_000}, {"cpu_percent": 3.0, "threads": 4.0, "rss_mb": 91.0}),
        (
            "names",
            {"masters": 3, "names": 100_000},
            {"held_bytes": 230.0, "left_bytes": 190.0, "pairs_per_s": 2100.0},
        ),
    ):
        case = dice.case(dict(settings), keys(5) if name == "idle" else ["rlock", "redlock-ng"], 1)
        for key, row in case.rows.items():
            if not row.error:
                row.figures = {figure: value * dice.pace(key) for figure, value in figures.items()}
        if name == "idle":
            case.rows["rlock"].figures["requests_per_s"] = 2.5
        found[name].cases.append(case)
    steps = dice.case({"masters": 5}, ["rlock", "floor-all", "floor-majority"], 400)
    for row in steps.rows.values():
        row.figures |= {
            f"{step}_us": row.figures["p50_us"] / 6
            for step in ("build", "send", "wait", "read", "count", "rest")
        }
    stacks = {
        "threads:_acquire;lock:RLock.acquire;fanout:Calls.send;[send]": 300.0,
        "threads:_acquire;lock:RLock.acquire;fanout:Calls.lead;[poll]": 400.0,
        "lock:RLock.release;fanout:Calls.send;[send]": 280.0,
        "lock:RLock.release;rules:outcome": 20.0,
    }
    found["steps"].cases += [steps, Case({"masters": 5, "stacks": "wall"}, {"rlock": Row(stacks)})]
    machine = {
        "cpu": "A processor",
        "cores": 2,
        "kernel": "6.1",
        "python": "3.11.7",
        "server": "Redis 7.0.15",
    }
    versions = dict.fromkeys(keys(1, floors=True), "1.0")
    return Results(machine, versions, "2026-11-22T01:02:03+00:00", 801.0, False, scenarios)
