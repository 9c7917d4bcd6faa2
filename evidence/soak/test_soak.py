"""The soak for a moment: real processes on real masters under every fault; and that it can fail.

Longer, with other seeds, masters and leases, and for every rule of safety: ``python -m evidence.soak``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rlock.testing.local.embedded import ServerBinary
from tests.histories import ask, end, got, history, hold, look, ms

from .plan import Plan
from .profiles import PROFILES
from .progress import judge_ends, judge_progress, lost_early
from .run import run


@pytest.fixture
def plan(server: ServerBinary, tmp_path: Path) -> Plan:
    """The journals of a run that fails stay in pytest's folder for it."""
    return Plan(10.0, seed=1, processes=4, until_gone=False, keep=tmp_path, server=server)


@pytest.mark.timeout(180)
def test_no_fault_makes_two_leases_overlap_or_a_token_fall_and_all_get_in_when_it_is_over(plan: Plan) -> None:
    result = run(plan)
    assert not result.findings, "\n".join(map(str, result.findings)) + f"\njournals: {result.kept}"
    assert len(result.faults) > 5, f"hardly a fault: {result.faults}"
    assert result.figures["holds"] > 50, "hardly anybody got in"
    assert result.counts["fenced"].acknowledged
    assert "failed" not in result.faults


@pytest.mark.timeout(120)
def test_a_breach_is_noticed(plan: Plan) -> None:
    (profile,) = (profile for profile in PROFILES if profile.sabotage == "quorum N/2")
    assert "overlap" in profile.broken(plan.seed, server=plan.server, keep=plan.keep).failed


def test_an_attempt_that_waits_beyond_the_bound_is_found() -> None:
    made = history(a=[ask(0)], b=[ask(0, timeout=0.5)], c=[ask(0)], d=hold(900, 910, 1, asked=0))
    found = judge_progress(made, {"c"}, ms(500), ms(3000), 2.0)
    assert [finding.check for finding in found] == ["progress"]
    assert "a#1" in str(found[0])


def test_an_attempt_without_an_end_is_found_unless_its_process_was_killed() -> None:
    made = history(a=[ask(0, timeout=0.1), end(50)], b=[ask(0, timeout=0.1)])
    assert [finding.check for finding in judge_ends(made, ())] == ["unfinished"]
    assert not judge_ends(made, ("a",))


def test_a_hold_that_was_lost_with_validity_left_is_counted() -> None:
    lost = [ask(0), got(1, 1), look(300, 2001), look(320, 0)]
    late = [ask(0), got(1, 1), look(2002, 0)]
    slow = [ask(0), got(1, 1), {**look(1990, 0), "by": ms(2002)}]
    assert [attempt.process for attempt in lost_early(history(a=lost, b=late, c=slow).holds)] == ["a"]
