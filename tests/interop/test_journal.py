"""The journals' arithmetic: what an overlap is, a hand-off, a lost update, a wait."""

from __future__ import annotations

from pathlib import Path

from .journal import Journal, Records

MS = 1_000_000


def records(**workers: list[tuple[int, int, int]]) -> Records:
    """Of each worker (java_0 is java-0) its sections: asked, begin, end, in ms."""
    made = Records()
    for worker, sections in workers.items():
        lines: list[list[object]] = []
        for asked, begin, end in sections:
            lines += [["ask", asked * MS], ["got", begin * MS, 0], ["leave", end * MS], ["left", end * MS]]
        made.add(worker.replace("_", "-"), [*lines, ["end", 0]])
    made.sections.sort(key=lambda section: section.begin)
    return made


def test_sections_that_touch_do_not_overlap_and_those_that_cross_do() -> None:
    assert records(java_0=[(0, 1, 5)], python_0=[(0, 5, 9)]).overlaps() == []
    (found,) = records(java_0=[(0, 1, 6)], python_0=[(0, 5, 9)]).overlaps()
    assert str(found) == "python-0 came 1.000 ms before java-0 had left"


def test_an_overlap_with_one_that_began_long_before_is_found() -> None:
    found = records(java_0=[(0, 1, 50)], java_1=[(0, 50, 60)], python_0=[(0, 10, 11), (0, 20, 21)]).overlaps()
    assert [(o.first.worker, o.second.worker) for o in found] == [("java-0", "python-0")] * 2


def test_lost_updates_are_the_sections_that_the_number_does_not_show() -> None:
    found = records(java_0=[(0, 1, 5)], python_0=[(0, 5, 9)])
    assert (found.lost_updates(2), found.lost_updates(1)) == (0, 1)


def test_half_a_line_of_a_killed_process_is_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "python-0.journal")
    journal.note("ask", at=1)
    journal.note("got", 7, at=2)
    journal.close()
    with (tmp_path / "python-0.journal").open("a") as file:
        file.write('["leave",')
    (section,) = Records.read(tmp_path).sections
    assert (section.asked_at, section.begin, section.seen, section.end) == (1, 2, 7, None)
