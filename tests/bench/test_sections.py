"""What contended sections say, on sections that are known."""

from __future__ import annotations

from typing import Any

from bench.harness.sections import Section, Turn, overlaps, row_of

MS = 1_000_000


def section(process: int, thread: int, asked: float, entered: float, left: float) -> Section:
    """Instants in milliseconds."""
    return Section(process, thread, *(round(at * MS) for at in (asked, entered, left)))


def turn(*sections: Section, **also: Any) -> Turn:
    """A window from 100 to 1100 ms, of two processes with one thread each, if nothing else is said."""
    settings: dict[str, Any] = {"processes": 2, "threads": 1, "began": 0, "opened": 100 * MS}
    return Turn(**{**settings, "closed": 1100 * MS, "sections": sections, **also})


def figures(*turns: Turn) -> dict[str, float]:
    return row_of(turns).figures


def test_sections_that_follow_each_other_do_not_overlap() -> None:
    assert overlaps([section(0, 0, 0, 1, 2), section(1, 0, 0, 2, 3), section(0, 0, 2, 3, 4)]) == 0


def test_each_section_that_begins_in_another_one_is_an_overlap() -> None:
    # The third one begins after the second has ended, and in the first.
    long, inside, later = section(0, 0, 0, 1, 10), section(1, 0, 0, 2, 3), section(1, 0, 3, 9, 12)
    assert overlaps([later, long, inside]) == 2
