"""The tables of `rlock watch`, drawn from a fixed snapshot."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from rlock.cli.scan.snapshot import MasterHealth, Snapshot
from rlock.cli.watch.tables import View, picture

from .dashboards import MASTERS, lock, snapshot


def drawn(seen: Snapshot, view: View | None = None, late: float = 0.0) -> str:
    stream, view = io.StringIO(), view or View(width=140)
    Console(file=stream, width=view.width).print(picture(seen, view, seen.at + late))
    lines = stream.getvalue().splitlines()
    assert all(cell_len(line) <= view.width for line in lines)
    return "\n".join(line.rstrip() for line in lines)


def test_it_shows_masters_locks_holders_waiters_and_votes() -> None:
    shown = drawn(snapshot(lock("orders:42", waiters=2), lock("next", None, 1))).splitlines()
    assert shown[0] == "rlock  *  2/3 masters answer  1 held  2 waited for"
    words = f"{MASTERS[0]} ok 0.40 ms 2 Valkey 9.1.0"
    assert shown[2].split()[:7] == words.split()
    (row,) = [line.split() for line in shown if line.startswith("orders:42 ")]
    assert row[1] == "web-1/4711/MainThread"
    assert row[-6:-1] == ["7.5", "s", "1", "2", "3/3"]
    assert row[-1].startswith("job-0/0/MainThread")
    (row,) = [line.split() for line in shown if line.startswith("next ")]
    assert row[-3:-1] == ["1", "0/3"]


def test_a_lease_counts_down_between_two_looks_and_never_below_zero() -> None:
    seen = snapshot(lock("a"))
    assert " 6.0 s " in drawn(seen, late=1.5)
    assert " 0.0 s " in drawn(seen, late=60.0)
    assert "60 s old" in drawn(seen, late=60.0)


def test_a_master_without_an_answer_or_a_vote_is_shown_with_the_reason() -> None:
    shown = drawn(snapshot(lock("a")))
    assert "guard 4 s" in shown
    assert f"{MASTERS[2]}: Connection refused" in shown
    down = [MasterHealth(master, "Connection refused") for master in MASTERS[1:]]
    shown = drawn(snapshot(masters=(MasterHealth(MASTERS[0], None, role="replica"), *down)))
    assert "replica" in shown
    assert "fewer than 2 masters answer: nobody gets a lock" in shown
    assert "? held" in shown
    assert "which locks are held is unknown" in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_lines_fit_and_foreign_names_are_text(width: int) -> None:
    names = ("x" * 500, "\x1b[2J\x1b]0;owned\x07", "[bold red]markup[/]", "锁" * 90, "line\nbreak")
    shown = drawn(snapshot(*map(lock, names)), View(width=width))
    assert "\x1b" not in shown
    # Behind an empty line, the titles, and one line for each lock.
    assert len(shown.partition("\n\n")[2].splitlines()) == 1 + len(names)
    if width == 200:
        assert r"\x1b[2J" in shown
        assert "[bold red]markup[/]" in shown


def test_a_terminal_that_is_too_low_shows_the_first_locks_and_says_so() -> None:
    shown = drawn(snapshot(*(lock(f"n{i:02}") for i in range(40))), View(height=20)).splitlines()
    assert len(shown) == 20
    assert shown[-1] == "10 of 40 locks, sorted by name; q quits, s sorts"
