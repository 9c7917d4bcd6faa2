"""`python -m evidence.soak.leaders` in short: no overlap, and each broken rule shows one."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from .leaders import CLOCK, FAULTS, MARGIN, soak


def figures_of(*args: object, **options: object) -> dict[str, object]:
    """In a fresh process: the soak forks, and a thread of another test may hold a lock at that moment."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(soak, *args, **options).result()  # type: ignore[arg-type]


def test_no_two_leaders_tick_at_once() -> None:
    figures = figures_of(12, fleets=3)
    assert figures["takeovers"] == 12
    assert (figures["asked overlaps"], figures["told overlaps"]) == (0, 0)


@pytest.mark.parametrize(("rule", "fault", "kind"), [(MARGIN, "cut", "told"), (CLOCK, "stop", "asked")])
def test_a_broken_rule_shows_overlaps(rule: str, fault: str, kind: str) -> None:
    assert fault in FAULTS
    assert figures_of(16, fleets=4, without=rule, faults=[fault])[f"{kind} overlaps"]
