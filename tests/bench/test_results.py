"""The document of a run."""

from __future__ import annotations

from pathlib import Path

from bench.harness.results import Case, Results, Row, Scenario
from bench.harness.verdicts import Verdict

VERDICT = Verdict("pair", "N = 5", 1.25, value=1.1, low=1.0, high=1.2, rounds=5)


def a_run() -> Results:
    case = Case(
        {"masters": 5, "far_ms": [1, 20]},
        {
            "rlock": Row.of_rounds({"p50_us": [480.0, 500.0, 520.0]}),
            "floor-all": Row({"p50_us": 400.0}),
            "pottery": Row({"p50_us": 2000.0, "p99_us": 1.0}, error="TimeoutError: not acquired"),
            "redsync": Row(error="Failed: no go on this machine", differs="4 processes x 4 threads"),
        },
    )
    case.compare("p50_us", ["floor-all", "redsync", "nobody"])
    other = Case({"masters": 1}, {"rlock": Row({"p50_us": 1.0})})
    pair = Scenario("pair", "A pair", "How long?", [case, other])
    return Results(
        {"cpu": "x", "cores": 2}, {"rlock": "0.1"}, "2026-01-01T00:00:00+00:00", 1.5, True, [VERDICT], [pair]
    )


def test_a_document_tells_what_the_run_told(tmp_path: Path) -> None:
    run = a_run()
    assert Results.from_json(run.to_json()) == run
    run.write(tmp_path / "a" / "results.json")
    assert Results.read(tmp_path / "a" / "results.json") == run
