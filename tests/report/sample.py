"""Made-up results of a run, for the tests of the tables, the plots and the page."""

from __future__ import annotations

import random

from bench.harness.demands import judge
from bench.harness.results import Case, Results, Row, Scenario

OURS = ["rlock", "rlock-fair", "rlock-asyncio"]
FLOORS = ["floor-all", "floor-majority", "floor-c"]
ONE = ["redis-py", "redis-py-tuned", "python-redis-lock", "redisson-rlock"]
MANY = ["pottery", "pottery-tuned", "redlock-ng", "redlock-ng-tuned", "redisson-redlock", "redsync"]
#: A contestant that fails everywhere, with the characters that an error's text may hold.
BROKEN = "redlock-plus"
ERROR = "Failed: it has ended: KeyError: 'a|b' <b>`x`</b>"
#: The figures of each scenario, and a usual value.
FIGURES = {
    "pair": {"p50_us": 400.0, "p99_us": 1200.0},
    "nested": {"p50_us": 4.0},
    "throughput": {"pairs_per_s": 2000.0, "cpu_us_per_pair": 300.0},
    "degraded": {"p50_us": 500.0, "p99_us": 1500.0},
    "wide_area": {"p50_us": 40_000.0, "round_trips": 2.0, "acquire_round_trips": 1.0},
    "contention": {"changes_per_s": 300.0, "cpu_ms_per_section": 2.0, "jain": 0.9, "hand_off_p50_us": 900.0},
    "wake_up": {"p50_us": 900.0},
    "idle": {"requests_per_s": 800.0, "cpu_percent": 12.0},
    "held": {"cpu_percent": 3.0, "threads": 4.0},
}
CASES: dict[str, list[dict[str, object]]] = {
    "pair": [{"masters": 1}, {"masters": 3}, {"masters": 5}],
    "throughput": [{"masters": 5, "processes": 1, "threads": n} for n in (1, 8, 32)],
    "degraded": [{"masters": 5, "state": state} for state in ("healthy", "one dead", "one stalled")],
    "wide_area": [{"masters": 5, "rtt_ms": [ms] * 5} for ms in (2, 20)],
    "contention": [
        {"masters": 5, "processes": 8, "threads": 2},
        {"masters": 5, "processes": 24, "threads": 1},
        {"masters": 1, "processes": 8, "threads": 2},
    ],
    "wake_up": [{"masters": 1}, {"masters": 5}],
    "idle": [{"masters": 1}, {"masters": 5}],
}


def sample(seed: int = 1) -> Results:
    """A full run, with five rounds behind each figure."""
    rng = random.Random(seed)
    scenarios = []
    for name, figures in FIGURES.items():
        scenario = Scenario(name, name.capitalize(), "How long?")
        scenarios.append(scenario)
        for settings in CASES.get(name, [{"masters": 5}]):
            chosen = [
                *OURS,
                *(ONE if settings["masters"] == 1 else MANY),
                *(FLOORS if name == "pair" else []),
            ]
            case = Case(dict(settings), {BROKEN: Row(error=ERROR)})
            for key in chosen:
                pace = rng.uniform(1, 5)
                rounds = {
                    figure: [usual * pace * rng.uniform(0.9, 1.1) for _ in range(5)]
                    for figure, usual in figures.items()
                }
                case.rows[key] = Row.of_rounds(rounds)
            case.compare(next(iter(figures)), ["rlock", *FLOORS])
            scenario.cases.append(case)
    contention = next(scenario for scenario in scenarios if scenario.name == "contention")
    contention.cases[1].rows["redisson-redlock"].differs = "8 processes x 3 threads"
    machine = {"commit": "1234567", "cpu": "A processor", "cores": 2, "server": "Redis 7.0.15"}
    versions = dict.fromkeys([*OURS, *ONE, *MANY], "1.0")
    results = Results(machine, versions, "2026-11-22T01:02:03+00:00", 801.0, False, [], scenarios)
    results.verdicts = judge(results)
    return results
