"""The picture of `rlock watch`, drawn from a fixed look, and the keys that change it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlock.cli.scan.reading import label
from rlock.cli.scan.snapshot import MasterHealth, Snapshot
from rlock.cli.watch.keys import Keys
from rlock.cli.watch.live import obey
from rlock.cli.watch.picture import View, draw, everything, least
from rlock.cli.words import cut, printable, width
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
    return Snapshot(AT, 2, masters or tuple(master(i) for i in range(3)), locks, more, 12.34)


def drawn(
    snapshot: Snapshot, view: View | None = None, columns: int = 130, lines: int = 30, late: float = 0.0
) -> str:
    picture = draw(snapshot, view or View(), columns, lines, AT + late)
    assert len(picture) == lines
    assert all(width(line.plain) <= columns for line in picture)
    return "\n".join(line.plain for line in picture)


def test_it_shows_masters_locks_holders_waiters_and_votes() -> None:
    shown = drawn(fleet(lock("orders:42", waiters=2), lock("nightly", votes=1)))
    head, _, first, *_ = shown.splitlines()
    assert head == "rlock  *  3/3 masters answer  1 held  1 waited for  12.3 hand-offs/s"
    words = "redis://10.0.0.0:6379 ok 0.40 ms 2 Valkey 9.1.2 2 h 1 min 3 MB 10% 12 345 +1 ms durable"
    assert first.split() == words.split()
    (row,) = [line for line in shown.splitlines() if line.startswith("orders:42 ")][:1]
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
    (row,) = [line for line in shown.splitlines() if line.startswith("nightly") and "1/3" in line]
    assert row.split() == ["nightly", "web-1/42/MainThread", "-", "-", "1", "-", "1/3", "-"]


def test_the_chosen_lock_is_shown_with_its_queue_and_its_masters() -> None:
    view = View(chosen="b")
    shown = drawn(fleet(lock("a"), lock("b", waiters=2)), view)
    below = shown[shown.index("─") :]
    assert f"b  {token('web-1/42/MainThread')}" in below
    assert "1. web-2/0/worker  waits 5.0 s" in below
    assert "2. web-2/1/worker" in below
    assert f"redis://10.0.0.2:6379  {token('web-1/42/MainThread')}" in below


def test_leases_and_waits_count_on_between_two_looks_and_never_below_zero() -> None:
    snapshot = fleet(lock("a", waiters=1))
    for late, lease in ((0.0, "8.0 s"), (2.5, "5.5 s"), (9.0, "0.0 s")):
        (row,) = [line for line in drawn(snapshot, late=late).splitlines() if line.startswith("a ")][:1]
        assert f" {lease} " in row
    assert "waits 7.5 s" in drawn(snapshot, late=2.5)


def paper(snapshot: Snapshot) -> str:
    return "\n".join(line.plain for line in everything(snapshot, View(), 130, AT))


def test_masters_that_give_no_answer_or_no_vote_are_shown_with_the_reason() -> None:
    masters = (master(0, fault="connection refused"), master(1, guarded=7.4), master(2, role="replica"))
    shown = drawn(fleet(masters=masters))
    assert "2/3 masters answer" in shown
    lines = shown.splitlines()
    assert lines[2].split() == ["redis://10.0.0.0:6379", "connection", "refused"]
    assert "guard 7 s" in lines[3]
    assert "replica" in lines[4]
    down = (master(0, fault="x"), master(1, fault="x"), master(2))
    assert "fewer than 2 masters answer" in drawn(fleet(masters=down))
    for view in (drawn(fleet(masters=down)), paper(fleet(masters=down))):
        assert "? held  ? waited for" in view
        assert "which locks are held is unknown" in view
        assert "no lock is held" not in view
    silent = tuple(master(i, unlisted="NOPERM scan") for i in range(3))
    assert "no locks to be seen: NOPERM scan" in drawn(fleet(masters=silent))


@pytest.mark.parametrize("columns", [60, 80, 132])
@pytest.mark.parametrize("lines", [13, 50])
@pytest.mark.parametrize("name", ["名前" * 40, "a\x1b[2J\n"])
def test_it_fits_whatever_the_names_are(columns: int, lines: int, name: str) -> None:
    snapshot = fleet(*(lock(f"{name}{i}", waiters=i) for i in range(60)))
    for utf8 in (True, False):
        shown = drawn(snapshot, View(utf8=utf8), columns, lines)
        assert "VOTES" in shown or columns < 80
        assert "\x1b" not in shown
        assert utf8 or "…" not in shown


def test_too_small_is_one_line_that_says_what_is_needed() -> None:
    for columns, lines in ((59, 40), (100, 12), (20, 5), (5, 1)):
        first, *rest = drawn(fleet(lock("a")), columns=columns, lines=lines).split("\n")
        assert first == f"too small: {columns}x{lines}, needs 60x13 (q quits)"[:columns]
        assert not any(rest)
    assert least(5) == (60, 15)


def test_a_filter_is_typed_kept_and_dropped() -> None:
    snapshot, view = fleet(lock("query"), lock("orders")), View()
    for key in ("/", "q", "u", "x", "backspace"):
        assert obey(view, key, snapshot), "a q in a filter does not quit"
    assert "/qu" in drawn(snapshot, view).splitlines()[-1]
    assert [each.name for each in view.shown(snapshot)] == ["query"]
    obey(view, "enter", snapshot)
    assert not view.typing
    assert [each.name for each in view.shown(snapshot)] == ["query"]
    view.filter = "zz"
    assert "no name holds 'zz'" in drawn(snapshot, view)
    obey(view, "escape", snapshot)
    assert len(view.shown(snapshot)) == 2
    assert not obey(view, "q", snapshot)


def test_keys_come_whole_and_in_pieces() -> None:
    keys = Keys()
    assert keys.feed(b"jq\x1b[A\x1bOB\x1b[6~/") == ["j", "q", "up", "down", "page down", "/"]
    assert keys.feed("ü".encode()[:1]) == []
    assert keys.feed("ü".encode()[1:]) == ["ü"]
    assert keys.feed(b"\x1b") == []
    assert keys.pending
    assert keys.feed(b"[") == []
    assert keys.feed(b"A\r\x7f") == ["up", "enter", "backspace"]
    assert keys.feed(b"\x1b") == []
    assert keys.settle() == ["escape"]
    assert keys.feed(b"\x1b[200~q\x1b[15;2~") == ["q"], "the letters of an unknown key are no commands"
    assert keys.feed(b"\x1bq") == ["escape", "q"]
    assert keys.feed(b"\x1b\x1b[B") == ["escape", "down"]


def test_words_for_people() -> None:
    assert label(token("web-1/42/MainThread")) == "web-1/42/MainThread"
    assert label("8743c9c0-0795-4907-87fd-6c719a6b4586:52") == "8743c9c0-0795-4907-87fd-6c719a6b4586:52"
    assert printable("a\x1b[2J\n\x9b") == "a\\x1b[2J\\n\\x9b"
    assert cut("abcdefghij", 5) == "ab…ij"
    assert cut("abcdefghij", 6, "..") == "ab..ij"
    assert width(cut("名前名前名前", 7)) <= 7
    assert cut("abc", 3) == "abc"
    assert width("é") == 1
