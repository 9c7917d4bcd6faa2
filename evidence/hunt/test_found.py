"""All that a hunt has found stays mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..simulation.play import play
from ..simulation.schedules import Schedule, drawn, mutated
from .__main__ import FOUND
from .search import kind


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    assert play(Schedule.loads(path.read_text(encoding="utf-8"))).violations == []


def test_a_schedule_is_the_same_when_it_was_saved() -> None:
    for seed in range(20):
        schedule = mutated(drawn(seed), drawn(seed + 1), seed)
        again = Schedule.loads(schedule.dumps(what="nothing"))
        assert again == schedule
        assert play(again).states == play(schedule).states
        assert kind(play(again)) == ""
