"""Each bug is red in its saved schedule, and not by an outdated patch. Without the bug it is green."""

from __future__ import annotations

import pytest

from ..hunt.search import hunt
from ..simulation.play import play
from . import BUGS, broken
from .__main__ import found


@pytest.mark.parametrize("name", found())
def test_its_schedule_is_red_with_the_bug_and_green_without(name: str) -> None:
    schedule = found()[name]
    assert play(schedule).violations == []
    with broken(name):
        assert [" argument" in each.what for each in play(schedule).violations[:1]] == [False]
    assert len(schedule.steps) <= 30


def test_the_search_finds_a_bug_that_it_knows_nothing_of() -> None:
    result = hunt(first=0, workers=1, limit=2000, seconds=60.0, bug="guard off")
    assert result.find is not None
    assert set(found()) <= set(BUGS)
