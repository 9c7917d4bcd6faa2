"""The journals' arithmetic: what an overlap is, a hand-off, a lost update, a wait."""

from __future__ import annotations

from pathlib import Path

from .journal import Delays, Journal, Records

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


def test_hand_offs_are_counted_by_direction_and_only_to_one_who_waited() -> None:
    found = records(
        java_0=[(0, 1, 5), (30, 31, 35)],
        java_1=[(2, 9, 11)],
        python_0=[(4, 6, 8), (10, 14, 15), (15, 16, 17), (36, 37, 38)],
    )
    assert found.hand_offs() == {
        ("java", "python"): [1 * MS, 3 * MS],
        ("python", "java"): [1 * MS],
    }
    # Twice in a row is no change; one who came later is one, and no hand-off.
    assert found.changes() == {("java", "python"): 3, ("python", "java"): 2}
    assert found.by_side() == {"java": 3, "python": 4}


def test_the_longest_wait_may_be_one_that_never_ended() -> None:
    found = records(java_0=[(0, 1, 5), (5, 405, 410)])
    found.add("python-0", [["ask", 100 * MS]])
    assert found.longest_waits(until=1100 * MS) == {"java-0": 0.4, "python-0": 1.0}
    assert found.killed == {"python-0"}
    assert found.by_worker() == {"java-0": 2, "python-0": 0}
    assert found.longest_gap() == 0.4


def test_lost_updates_are_the_sections_that_the_number_does_not_show() -> None:
    found = records(java_0=[(0, 1, 5)], python_0=[(0, 5, 9)])
    assert (found.lost_updates(2), found.lost_updates(1)) == (0, 1)


def test_a_fault_ends_a_wait_and_is_kept() -> None:
    found = Records()
    found.add("python-0", [["ask", 1], ["fault", 5, "QuorumUnreachableError"], ["end", 9]])
    assert found.faults == [("python-0", 5, "QuorumUnreachableError")]
    assert found.pending == {}


def test_half_a_line_of_a_killed_process_is_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "python-0.journal")
    journal.note("ask", at=1)
    journal.note("got", 7, at=2)
    journal.close()
    with (tmp_path / "python-0.journal").open("a") as file:
        file.write('["leave",')
    (section,) = Records.read(tmp_path).sections
    assert (section.asked_at, section.begin, section.seen, section.end) == (1, 2, 7, None)


def test_delays_are_medians_in_seconds() -> None:
    told = Delays.of([4 * MS, 1 * MS, 2 * MS])
    assert (told.count, told.median, told.p99, told.longest) == (3, 0.002, 0.004, 0.004)
    assert Delays.of([]) == Delays(0, 0.0, 0.0, 0.0)
