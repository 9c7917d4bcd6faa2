"""Figures on known values."""

from __future__ import annotations

import pytest

from bench.harness import figures


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert figures.percentile(values, 99) == 99.0
    assert figures.percentile(values, 50) == 50.0
    assert figures.percentile(values, 100) == 100.0
    assert figures.percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        figures.percentile([], 50)


def test_the_spread_is_of_the_medians_of_the_rounds_not_of_all_values() -> None:
    assert figures.spread([[1, 2, 900], [10, 20, 30], []]) == (2, 20)


def test_durations_come_in_nanoseconds_and_leave_in_microseconds() -> None:
    found = figures.durations([[1000, 2000, 3000], [5000, 6000]])
    assert found == {"p50_us": 3.0, "p99_us": 6.0, "p50_low_us": 2.0, "p50_high_us": 5.5, "count": 5.0}
    assert figures.durations([[], []]) == {}


def test_a_ratio_is_taken_round_by_round_so_that_a_mood_of_the_machine_hits_both() -> None:
    ours, its = [[200.0, 210.0], [410.0], [200.0]], [[100.0], [200.0, 210.0, 190.0], [100.0], [500.0]]
    assert figures.ratio(ours, its) == 2.05
    # Of the medians of all, one may be of the quick rounds and the other one of the slow ones.
    assert figures.ratio([[100.0], [300.0]], [[100.0], [300.0], [300.0]]) == 1.0
    assert figures.ratio([], its) is None
    assert figures.ratio([[], [400.0]], [[100.0], [200.0]]) == 2.0
