"""Figures on known values."""

from __future__ import annotations

from bench.harness import figures
from bench.harness.sections import Section, overlaps


def test_five_rounds_give_their_lowest_and_highest_value_and_more_rounds_less() -> None:
    assert figures.estimate([3.0, 1.0, 2.0, 5.0, 4.0]) == figures.Estimate(3.0, 1.0, 5.0, 5)
    # 1 - 2 (1 + 9) / 2 ** 9 = 96 % for the second lowest and highest of nine; the third ones have 82 %.
    nine = figures.estimate([float(n) for n in range(1, 10)])
    assert nine == figures.Estimate(5.0, 2.0, 8.0, 9)
    assert figures.estimate([]) is None


def test_durations_are_in_microseconds_and_a_p99_has_enough_samples() -> None:
    few = figures.durations([[1000.0, 2000.0, 3000.0], [], [5000.0]])
    assert few == {"p50_us": [2.0, 5.0], "p99_us": [5.0]}
    batch = [float(ns) for ns in range(1000, 26_000, 1000)]
    found = figures.durations([batch] * 9)
    assert len(found["p50_us"]) == 9
    assert found["p99_us"] == [25.0, 25.0]


def test_a_ratio_is_taken_round_by_round() -> None:
    assert figures.ratios([200.0, 410.0, 7.0], [100.0, 200.0]) == [2.0, 2.05]
    assert figures.ratios([1.0, 2.0], [0.0, 1.0]) == [2.0]


def test_each_section_that_begins_in_another_one_is_an_overlap() -> None:
    first, second, third = (
        Section(i, 0, 0, begin, end) for i, begin, end in ((0, 1, 2), (1, 2, 3), (0, 3, 4))
    )
    assert overlaps([first, second, third]) == 0
    # The third one begins after the second has ended, and in the first.
    long, later = Section(0, 0, 0, 1, 10), Section(1, 1, 3, 9, 12)
    assert overlaps([later, long, second]) == 2
