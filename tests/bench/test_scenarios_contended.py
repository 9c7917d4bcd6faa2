"""A short real run of contention: ours and redis-py's."""

from __future__ import annotations

import dataclasses

from bench.harness.contestants import Contestant, select
from bench.scenarios import contention

QUICK_S = 3.0


def here(key: str) -> Contestant:
    """A worker in the interpreter of the tests, which has what it needs: nothing is installed."""
    return dataclasses.replace(select([key])[0], environment="own")


def test_contention_tells_owners_costs_and_fairness() -> None:
    found = contention.run([here("rlock"), here("redis-py")], QUICK_S, True)
    cases = {case.case["masters"]: case for case in found}
    assert set(cases) == {5, 1}
    for case in cases.values():
        assert [row.error for row in case.rows.values()] == [None] * len(case.rows)
        ours = case.rows["rlock"].figures
        assert ours["overlaps"] == ours["errors"] == 0
        assert ours["changes_per_s"] > 0
        assert ours["cpu_ms_per_section"] > 0
        # One acquire and one release at least, but for what the ends of a short window cut off.
        assert 1 < ours["scripts_per_section"] / case.case["masters"] < 8
        assert ours["attempts_per_section"] > 0
        assert case.rows["rlock"].ratios == {"rlock": 1.0}
    theirs = cases[1].rows["redis-py"].figures
    assert theirs["overlaps"] == 0
    assert theirs["sections_per_s"] > 10
    assert "attempts_per_section" not in theirs
