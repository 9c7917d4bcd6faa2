"""`python -m tests.soak.leaders` in short: no overlap, and each broken rule shows one."""

from __future__ import annotations

import pytest

from .leaders import CLOCK, FAULTS, MARGIN, soak


def test_no_two_leaders_tick_at_once() -> None:
    figures = soak(12, fleets=3)
    assert figures["takeovers"] == 12
    assert (figures["asked overlaps"], figures["told overlaps"]) == (0, 0)


@pytest.mark.parametrize(("rule", "fault", "kind"), [(MARGIN, "cut", "told"), (CLOCK, "stop", "asked")])
def test_a_broken_rule_shows_overlaps(rule: str, fault: str, kind: str) -> None:
    assert fault in FAULTS
    assert soak(16, fleets=4, without=rule, faults=[fault])[f"{kind} overlaps"]
