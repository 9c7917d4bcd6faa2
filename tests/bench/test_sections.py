"""What contended sections say, on sections that are known."""

from __future__ import annotations

from bench.harness.sections import Section, overlaps

MS = 1_000_000


def section(process: int, thread: int, asked: float, entered: float, left: float) -> Section:
    """Instants in milliseconds."""
    return Section(process, thread, *(round(at * MS) for at in (asked, entered, left)))


def test_each_section_that_begins_in_another_one_is_an_overlap() -> None:
    assert overlaps([section(0, 0, 0, 1, 2), section(1, 0, 0, 2, 3), section(0, 0, 2, 3, 4)]) == 0
    # The third one begins after the second has ended, and in the first.
    long, inside, later = section(0, 0, 0, 1, 10), section(1, 0, 0, 2, 3), section(1, 0, 3, 9, 12)
    assert overlaps([later, long, inside]) == 2
