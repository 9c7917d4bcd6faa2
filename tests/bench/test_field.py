"""Who is in the field, and where each takes part."""

from __future__ import annotations

import pytest

from bench.harness import plan
from bench.harness.field import ALL, field, of
from bench.report.peers import FACTS

from ..servers import Fleet
from .contestants import TTL_MS, entry


def keys(scenario: str, *only: str) -> set[str]:
    return {found.key for found in of(scenario, field(only or None))}


def test_a_second_release_and_an_option_take_part_where_they_tell_something() -> None:
    four = {"node-redlock-4", "node-redlock-4-tuned"}
    for scenario in plan.names():
        there = keys(scenario)
        assert {"rlock", "node-redlock", "redsync", "redsync-tuned", "floor-c"} <= there
        assert there & four == (four if scenario in ("pair", "contention", "wake_up") else set())
        assert ("redsync-failfast" in there) == (scenario in ("pair", "degraded", "wide_area"))


def test_who_is_asked_for_by_its_key_takes_part_everywhere() -> None:
    for scenario in plan.names():
        assert keys(scenario, "node-redlock-4", "rlock") == {"node-redlock-4", "rlock"}


def test_scenarios_are_those_that_there_are() -> None:
    assert {name for found in ALL for name in found.scenarios or ()} <= set(plan.names())


def test_of_every_lock_the_page_knows_more_than_its_speed() -> None:
    locks = {found.key for found in ALL if found.family != "floor" and not found.tuned}
    assert set(FACTS) == locks


@pytest.mark.parametrize(
    ("key", "name", "version"),
    [("node-redlock-4", "node-redlock 4", "4."), ("redsync-failfast", "redsync, fail fast", "4.")],
)
def test_a_release_or_an_option_is_the_one_that_its_row_says(
    masters3: Fleet, key: str, name: str, version: str
) -> None:
    with entry(key).start() as contestant:
        told = contestant.ask("open", masters=masters3.urls, ttl_ms=TTL_MS, poll_ms=None)
        assert told["name"] == name
        assert told["version"].startswith(version)
        assert len(contestant.ask("pairs", lock="a", count=3)["ns"]) == 3
