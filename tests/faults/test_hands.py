"""A hold that changes hands between processes that are killed."""

from __future__ import annotations

import pytest

from ..servers import Fleet
from .hands import Event, judge, rounds


@pytest.mark.slow
@pytest.mark.rule("3.12")
def test_between_processes_that_are_killed_nothing_overlaps_and_nothing_is_lost(masters3: Fleet) -> None:
    outcomes, wrong = rounds(masters3.urls, 40, 1)
    assert not wrong
    assert outcomes["adopted"] > 5
    assert outcomes.total() == 40


def test_each_fault_of_a_round_is_seen() -> None:
    holder = [Event("holder", "enter", 1.0, 5), Event("holder", "leave", 2.0), Event("holder", "handle", 3.0)]
    good = [
        *holder,
        Event("adopter", "enter", 4.0, 5),
        Event("adopter", "killed", 5.0),
        Event("rival", "enter", 6.0, 6),
    ]
    assert judge(good, "adopted") == []
    assert judge([*holder, Event("rival", "enter", 3.5, 6)], "adopted") == ["the rival was in between"]
    assert judge([*good, Event("another", "enter", 7.0, 5)], "adopted") == ["another enters beside rival"]
    assert judge([*holder, Event("adopter", "enter", 4.0, 6)], "adopted") == ["the adopter has another token"]
    assert judge([*holder, Event("rival", "enter", 9.0, 5)], "") == [
        "the rival has a token that is not greater"
    ]
