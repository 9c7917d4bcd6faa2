"""The picture of `rlock watch`: a snapshot as two tables, one of masters and one of locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ...model import LockStatus
from ..output import ms, printable, size
from ..output import seconds as duration
from ..scan.reading import label, led, ordered, seen, unlisted, votes
from ..scan.snapshot import CLOCK_ALERT_S, MasterHealth, Snapshot

T = TypeVar("T")


class Moment(NamedTuple):
    """When the picture is drawn."""

    now: float  # Unix time
    aged: float  # seconds since the look


class Cell(NamedTuple):
    """A text in a table; other people may have written it."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column of a table: its title, and what it says of a row."""

    title: str
    cell: Callable[[T, Moment], Cell | str]
    number: bool = False  # aligned to the right
    shrinks: bool = False  # shortened first, where the terminal is too narrow
    from_width: int = 0  # left out of terminals with fewer columns


@dataclass(frozen=True)
class View:
    """What is shown, and on what."""

    pattern: str = "*"
    order: str = "name"
    width: int = 120
    height: int | None = None  # lines of the terminal; None: all locks are shown
    utf8: bool = True


def picture(snapshot: Snapshot, view: View, now: float) -> Group:
    """The picture at a Unix time: leases count down between two looks."""
    moment = Moment(now, now - snapshot.at)
    locks = ordered(snapshot.locks, view.order)
    head, shown, foot = _head(snapshot, view, moment), locks, []
    notes = list(_notes(snapshot, now))
    if view.height is not None:
        lines_of_notes = sum(-(-len(note) // view.width) for note in notes)
        # The other lines are the titles of the two tables, two empty lines and the foot.
        shown = locks[: max(0, view.height - len(head) - len(snapshot.masters) - 5 - lines_of_notes)]
        count = f"{len(shown)} of {len(locks)} locks, " if len(shown) < len(locks) else ""
        foot = [Text(), Text(f"{count}sorted by {view.order}; q quits, s sorts", style="dim")]
    table = _table(LOCKS, shown, view, moment) if locks else Text(_nothing(snapshot))
    masters = _table(MASTERS, snapshot.masters, view, moment)
    return Group(*head, masters, *notes, Text(), table, *foot)


def _table(columns: Sequence[Column[T]], rows: Sequence[T], view: View, moment: Moment) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = [column for column in columns if view.width >= column.from_width]
    for column in columns:
        table.add_column(
            column.title, justify="right" if column.number else "left", no_wrap=not column.shrinks
        )
    for row in rows:
        table.add_row(*(_text(column.cell(row, moment), view) for column in columns))
    return table


def _text(cell: Cell | str, view: View) -> Text:
    cell = Cell(cell) if isinstance(cell, str) else cell
    # A Text is never taken for markup, and with no_wrap a long name stays on its line.
    return Text(
        printable(cell.text), style=cell.style, no_wrap=True, overflow="ellipsis" if view.utf8 else "crop"
    )


def _head(snapshot: Snapshot, view: View, moment: Moment) -> list[Text]:
    answering, masters = snapshot.answering, len(snapshot.masters)
    enough = answering >= snapshot.quorum
    more = "+" if snapshot.more else ""
    held = sum(lock.locked for lock in snapshot.locks)
    waited = sum(lock.queue_length > 0 for lock in snapshot.locks)
    unknown = not enough and not snapshot.locks
    line = _text(Cell("rlock", "bold"), view)
    line.append(f"  {printable(view.pattern)}  ", style="not bold")
    line.append(
        f"{answering}/{masters} masters answer",
        style="green" if answering == masters else "yellow" if enough else "bold red",
    )
    line.append("  ? held  ? waited for" if unknown else f"  {held}{more} held  {waited}{more} waited for")
    if moment.aged > 5:
        line.append(f"  {duration(moment.aged)} old", style="yellow")
    if not enough:
        told = f"fewer than {snapshot.quorum} masters answer: nobody gets a lock, and holders are not known"
        return [line, _text(Cell(told, "bold red"), view)]
    why = unlisted(snapshot)
    return [line] if why is None else [line, _text(Cell(why, "bold yellow"), view)]


def _notes(snapshot: Snapshot, now: float) -> Iterator[Text]:
    """A line for each master that gave no answer, and for each group."""
    for each in snapshot.masters:
        if each.fault is not None:
            yield Text(printable(f"{each.master}: {each.fault}"), style="red")
        elif each.group is not None:
            style = "" if each.group.votes else "red"
            yield Text(printable(f"{each.master}: {led(each.group, now)}"), style=style)


def _nothing(snapshot: Snapshot) -> str:
    if snapshot.answering < snapshot.quorum:
        # "No lock is held" would be read as "nothing to lose", and answered with `rlock init`.
        return "which locks are held is unknown"
    return "no lock is held or waited for" + (" among those that were found so far" if snapshot.more else "")


# -- masters ---------------------------------------------------------------------------------------


def _known(value: T | None, text: Callable[[T], str] = str) -> str:
    return "-" if value is None else text(value)


def _state(each: MasterHealth, _: Moment) -> Cell:
    if each.fault is not None:
        return Cell("no answer", "bold red")
    if each.role == "replica":
        return Cell("replica", "bold red")
    if each.group is not None and not each.group.votes:
        return Cell("no vote", "bold red")
    if each.guarded:
        return Cell(f"guard {each.guarded:.0f} s", "yellow")
    if _full(each, 1.0):
        return Cell("full", "bold red")  # it answers, and grants nothing
    return Cell("ok", "green")


def _full(each: MasterHealth, part: float) -> bool:
    return bool(each.max_memory) and (each.memory or 0) >= part * (each.max_memory or 0)


def _memory(each: MasterHealth, _: Moment) -> Cell:
    if each.memory is None:
        return Cell("-")
    used = f" {100 * each.memory / each.max_memory:.0f}%" if each.max_memory else ""
    return Cell(size(each.memory) + used, "yellow" if _full(each, 0.9) else "")


def _clock(each: MasterHealth, _: Moment) -> Cell:
    offset = each.clock_offset
    if offset is None:
        return Cell("-")
    return Cell(f"{offset * 1000:+.0f} ms", "yellow" if abs(offset) > CLOCK_ALERT_S else "")


MASTERS: Sequence[Column[MasterHealth]] = (
    Column("MASTER", lambda each, _: each.master, shrinks=True),
    Column("STATE", _state),
    Column("LATENCY", lambda each, _: _known(each.latency, ms), number=True),
    Column("LOCKS", lambda each, _: _known(each.locks), number=True),
    Column("SERVER", lambda each, _: f"{each.flavour or '-'} {each.version or ''}", from_width=90),
    Column("CLOCK", _clock, number=True, from_width=90),
    Column("MEMORY", _memory, number=True, from_width=110),
)

# -- locks -----------------------------------------------------------------------------------------


def _holder(lock: LockStatus, _: Moment) -> Cell:
    holder, _votes = seen(lock)
    return Cell("-" if holder is None else label(holder), "" if lock.locked else "dim")


def _lease(lock: LockStatus, moment: Moment) -> Cell:
    if lock.remaining is None:
        return Cell("no expiry", "yellow") if lock.locked else Cell("-")
    left = max(0.0, lock.remaining - moment.aged)
    return Cell(f"{left:.1f} s", "bold red" if left < 1 else "yellow" if left < 3 else "")


def _held_for(lock: LockStatus, moment: Moment) -> str:
    return "-" if lock.since is None else duration(max(0.0, moment.now - lock.since))


LOCKS: Sequence[Column[LockStatus]] = (
    Column("NAME", lambda lock, _: Cell(lock.name, "bold"), shrinks=True),
    Column("HOLDER", _holder, shrinks=True),
    Column("HELD FOR", _held_for, number=True),
    Column("LEASE", _lease, number=True),
    Column("COUNT", lambda lock, _: str(lock.hold_count or "-"), number=True, from_width=80),
    Column("WAITERS", lambda lock, _: Cell(str(lock.queue_length or "-"), "cyan"), number=True),
    Column("VOTES", lambda lock, _: Cell(votes(lock), "" if lock.locked else "yellow"), True, from_width=70),
    Column(
        "NEXT",
        lambda lock, _: label(lock.waiters[0].owner) if lock.waiters else "-",
        shrinks=True,
        from_width=110,
    ),
)
