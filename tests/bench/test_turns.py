"""Contestants that take turns, also where some of them fail."""

from __future__ import annotations

import random

import pytest

from bench.harness.turns import Clock, Runners

from .broken import broken


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cannot start", "Failed: pip failed: no such package"),
        ("ends", "Failed: it has ended: it had enough"),
        ("hangs", "Failed: no answer within 0.5 s"),
        ("prints", "Failed: no reply of the protocol: warming up"),
        ("raises", "LockError: no such lock"),
        ("sometimes", "LockError: not this time"),
    ],
)
def test_a_contestant_that_fails_has_its_error_and_the_others_go_on(how: str, error: str) -> None:
    with Runners([(broken(how), []), (broken("well"), [])]) as both:
        bad, well = both.runners
        for runner in both.turns(random.Random(1), Clock(1.0)):
            runner.batch("pairs", "x", 0.5)
    row = bad.row()
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error
    assert well.error is None
    assert well.row().error is None
    assert len(well.rounds) > 10
    if how == "sometimes":
        assert row.figures["failed"] == bad.failed > 10
        assert bad.rounds, "what it did well counts"
    else:
        assert not bad.rounds
