"""Where contestants and their master run."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from bench.harness import figures, machine, placing
from bench.harness.lineup import Runner
from bench.harness.masters import Masters
from bench.harness.results import Case
from bench.scenarios.pair import compare, placed

from .broken import broken

pytestmark = pytest.mark.skipif(placing.halves() is None, reason="one core, or no way to choose")


def cores(pid: int | None) -> set[int]:
    """Those on which any thread of a process may run."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {core for thread in threads for core in os.sched_getaffinity(int(thread.name))}


def test_one_master_and_the_contestants_have_half_of_the_cores_each() -> None:
    both = placing.halves()
    assert both is not None
    everywhere = os.sched_getaffinity(0)
    assert both[0] | both[1] == everywhere
    assert not both[0] & both[1]
    with Masters(1) as masters, placed(masters, [broken("well"), broken("well")]) as lineup:
        for runner in lineup.runners:
            assert runner.contestant is not None
            assert cores(runner.contestant.pid) == both[0]
        assert cores(masters[0].pid) == both[1]
        assert os.sched_getaffinity(0) == everywhere, "the harness itself is where it was"


def test_several_masters_and_their_contestants_run_anywhere() -> None:
    with Masters(2) as masters, placed(masters, [broken("well")]) as lineup:
        (runner,) = lineup.runners
        assert runner.contestant is not None
        for pid in (runner.contestant.pid, masters[0].pid, masters[1].pid):
            assert cores(pid) == os.sched_getaffinity(0)


def test_a_lineup_that_cannot_start_leaves_the_harness_where_it_was() -> None:
    everywhere = os.sched_getaffinity(0)
    with pytest.raises(KeyboardInterrupt), placing.started_on([min(everywhere)]):
        assert os.sched_getaffinity(0) == {min(everywhere)}
        raise KeyboardInterrupt
    assert os.sched_getaffinity(0) == everywhere


@pytest.mark.skipif(sys.platform != "linux", reason="there is no pinning elsewhere")
def test_what_a_run_says_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6})
    assert placing.halves() == (frozenset({4}), frozenset({5, 6}))
    assert placing.described() == "one master: contestants on core 4, it on core 5, 6"
    assert machine.describe()["placing"] == placing.described()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4})
    assert placing.halves() is None
    assert placing.described() == "as the kernel does it"


def runner(key: str, *rounds: list[float], error: str | None = None) -> Runner:
    found = Runner(dataclasses.replace(broken("well"), key=key), [], rounds=list(rounds))
    found.error = error
    return found


def test_ratios_of_pairs_are_taken_round_by_round_but_of_one_that_failed_at_times() -> None:
    runners = [
        runner("rlock", [100.0], [300.0], [110.0]),
        runner("redis-py", [200.0], [600.0], [600.0]),
        runner("pottery", [300.0], [300.0], error="LockError: not this time"),
    ]
    case = Case({}, {one.key: one.row(figures.durations(one.rounds)) for one in runners})
    compare(case, runners, ["rlock", "redis-py"])
    assert case.rows["rlock"].ratios == {"rlock": 1.0, "redis-py": 0.5}
    assert case.rows["redis-py"].ratios == {"rlock": 2.0, "redis-py": 1.0}
    assert case.rows["pottery"].ratios["redis-py"] == 0.5
