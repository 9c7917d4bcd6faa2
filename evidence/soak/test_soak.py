"""The soak for a moment: real processes on real masters under every fault; and that it can fail.

Longer, with other seeds, masters and leases, and for every rule of safety: ``python -m evidence.soak``.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rlock.testing.local.embedded import ServerBinary

from ..bugs import BUGS
from .field import FAULTS
from .plan import ALL, ALL_OF_GROUPS, Plan
from .profiles import PROFILES
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
def test_a_quorum_of_half_the_masters_is_noticed(plan: Plan) -> None:
    broken = dataclasses.replace(plan, faults=("disconnect",), sabotage="quorum N/2", until_red=True)
    assert "overlap" in run(broken).failed


@pytest.mark.timeout(180)
def test_no_failover_makes_two_leases_overlap_or_a_token_fall(plan: Plan) -> None:
    groups = dataclasses.replace(plan, seconds=20.0, ttl=1.5, replicas=1, faults=ALL_OF_GROUPS)
    result = run(groups)
    assert not result.findings, "\n".join(map(str, result.findings)) + f"\njournals: {result.kept}"
    assert sum(result.figures["failovers"].values()) > 2, f"hardly a failover: {result.faults}"
    assert result.figures["holds"] > 50, "hardly anybody got in"
    assert not result.figures["of_these_lost_early"]
    assert "failed" not in result.faults


@pytest.mark.timeout(120)
def test_votes_that_no_replica_acknowledged_are_noticed(plan: Plan) -> None:
    faults = ("failover-partition",)
    broken = dataclasses.replace(
        plan, seconds=60.0, ttl=1.5, masters=1, replicas=1, acknowledged=0, faults=faults, until_red=True
    )
    assert "overlap" in run(broken).failed


def test_every_breach_has_a_profile() -> None:
    broken = {profile.sabotage for profile in PROFILES if profile.change is None}
    assert broken <= set(BUGS)


def test_every_fault_that_a_plan_names_is_there() -> None:
    for faults in (ALL, ALL_OF_GROUPS, *(profile.plan.faults for profile in PROFILES)):
        assert set(faults) <= FAULTS.keys()
