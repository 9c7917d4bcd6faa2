"""The tables of `rlock watch`, drawn from a fixed snapshot."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from rlock.cli.scan.snapshot import MasterHealth, Snapshot
from rlock.cli.watch.tables import View, picture
from rlock.model import LockStatus, MasterStatus, Waiter

AT = 1_800_000_000.0
UUID = "01a1fd77fb5e77d485f89576df3d9594"


def token(client: str) -> str:
    return f"{client}:{UUID}"


def lock(
    name: str, holder: str | None = "web-1/42/MainThread", waiters: int = 0, votes: int = 3
) -> LockStatus:
    owner = None if holder is None else token(holder)
    views = tuple(
        MasterStatus(f"redis://10.0.0.{i}:6379", owner if i < votes else None, 1, 8.0) for i in range(3)
    )
    queue = tuple(Waiter(token(f"web-2/{i}/worker"), AT - 5) for i in range(waiters))
    held = owner is not None and votes >= 2
    return LockStatus(
        name,
        owner if held else None,
        AT - 61 if held else None,
        1,
        8.0 if held else None,
        2,
        views,
        waiters,
        queue,
    )


def master(i: int, **changes: object) -> MasterHealth:
    health = MasterHealth(
        f"redis://10.0.0.{i}:6379",
        None,
        latency=0.0004,
        flavour="Valkey",
        version="9.1.2",
        role="master",
        uptime=7300.0,
        durable=True,
        memory=3 << 20,
        max_memory=30 << 20,
        clients=12,
        commands_per_second=345.0,
        clock_offset=0.001,
        locks=2,
    )
    return replace(health, **changes)  # type: ignore[arg-type]


def fleet(
    *locks: LockStatus, masters: tuple[MasterHealth, ...] | None = None, more: bool = False
) -> Snapshot:
    return Snapshot(AT, 2, masters or tuple(master(i) for i in range(3)), locks, more)


def drawn(snapshot: Snapshot, view: View | None = None, width: int = 140, late: float = 0.0) -> str:
    stream = io.StringIO()
    view = replace(view or View(), width=width)
    Console(file=stream, width=width).print(picture(snapshot, view, AT + late))
    lines = stream.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return "\n".join(line.rstrip() for line in lines)


def test_it_shows_masters_locks_holders_waiters_and_votes() -> None:
    shown = drawn(fleet(lock("orders:42", waiters=2), lock("nightly", votes=1))).splitlines()
    assert shown[0] == "rlock  *  3/3 masters answer  1 held  1 waited for"
    words = "redis://10.0.0.0:6379 ok 0.40 ms 2 Valkey 9.1.2 +1 ms 3 MB 10%"
    assert shown[2].split() == words.split()
    (row,) = [line for line in shown if line.startswith("orders:42 ")]
    assert row.split() == [
        "orders:42",
        "web-1/42/MainThread",
        "61",
        "s",
        "8.0",
        "s",
        "1",
        "2",
        "3/3",
        "web-2/0/worker",
    ]
    (row,) = [line for line in shown if line.startswith("nightly ")]
    assert row.split() == ["nightly", "web-1/42/MainThread", "-", "-", "1", "-", "1/3", "-"]


def test_a_lease_counts_down_between_two_looks_and_never_below_zero() -> None:
    assert " 6.5 s " in drawn(fleet(lock("a")), late=1.5)
    assert " 0.0 s " in drawn(fleet(lock("a")), late=60.0)
    assert "60 s old" in drawn(fleet(lock("a")), late=60.0)


def test_a_master_without_an_answer_or_a_vote_is_shown_with_the_reason() -> None:
    down = master(1, fault="connection refused")
    shown = drawn(fleet(lock("a"), masters=(master(0, guarded=7.0), down, master(2, role="replica"))))
    assert "2/3 masters answer" in shown
    for told in ("guard 7 s", "connection refused", "replica"):
        assert told in shown
    shown = drawn(fleet(masters=(down, down, master(2))))
    assert "fewer than 2 masters answer: nobody gets a lock" in shown
    assert "? held" in shown
    assert "which locks are held is unknown" in shown


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_lines_fit_and_foreign_names_are_text(width: int) -> None:
    names = ("x" * 500, "\x1b[2J\x1b]0;owned\x07", "[bold red]markup[/]", "锁" * 90, "line\nbreak")
    shown = drawn(fleet(*map(lock, names)), width=width)
    assert "\x1b" not in shown
    # The head, three masters, two titles, an empty line, and one line for each lock.
    assert len(shown.splitlines()) == 1 + 1 + 3 + 1 + 1 + len(names)
    if width == 200:
        assert r"\x1b[2J" in shown
        assert "[bold red]markup[/]" in shown


def test_a_terminal_that_is_too_low_shows_the_first_locks_and_says_so() -> None:
    shown = drawn(fleet(*(lock(f"n{i:02}") for i in range(40))), View(height=20)).splitlines()
    assert len(shown) == 20
    assert shown[-1] == "11 of 40 locks, sorted by name; q quits, s sorts"
