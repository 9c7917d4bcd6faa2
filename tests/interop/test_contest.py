"""Java and Python processes contend for one lock, for seconds; contest.py does the same for a minute."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..conftest import FreshMasters
from ..servers import Fleet
from .building import Build
from .contest import Plan, Result, contest, table

PLAN = Plan(seconds=3.0, javas=2, java_threads=2, pythons=4, hold_ms=1, watchdog_ms=3000)


def judge(result: Result, plan: Plan) -> None:
    """The lock excluded everybody, and every contender got it."""
    told = table(result)
    print(told)
    assert result.violations == [], told
    assert len(result.history.ended) == plan.javas * plan.java_threads + plan.pythons, told
    assert min(result.by_contender.values()) >= 1, told
    assert sum(result.sections.values()) >= 50, told


def test_never_two_at_once(masters3: Fleet, redisson: Build, tmp_path: Path) -> None:
    result = contest(redisson, masters3.masters, PLAN, tmp_path)
    judge(result, PLAN)
    assert result.history.errors == []


def test_never_two_at_once_while_one_of_three_masters_dies(
    fresh_masters: FreshMasters, redisson: Build, tmp_path: Path
) -> None:
    plan = dataclasses.replace(PLAN, seconds=4.0, kill=1)
    judge(contest(redisson, fresh_masters(3).masters, plan, tmp_path), plan)


def test_the_contest_notices_two_locks_where_one_should_be(
    masters1: Fleet, redisson: Build, tmp_path: Path
) -> None:
    plan = dataclasses.replace(PLAN, seconds=2.0, apart=True)
    result = contest(redisson, masters1.masters, plan, tmp_path)
    assert result.overlaps
    assert result.lost_updates
