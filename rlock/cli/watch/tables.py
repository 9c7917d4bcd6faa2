"""The picture of `rlock watch`: a snapshot as two tables, one of masters and one of locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..output import printable
from ..output import seconds as duration
from ..scan.columns import LOCKS, MASTERS, Cell, Column, Moment
from ..scan.reading import led, nothing, ordered
from ..scan.snapshot import Snapshot

T = TypeVar("T")


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
    table = _table(LOCKS, shown, view, moment) if locks else Text(printable(nothing(snapshot)))
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
    return [line]


def _notes(snapshot: Snapshot, now: float) -> Iterator[Text]:
    """A line for each master that gave no answer, and for each group."""
    for each in snapshot.masters:
        if each.fault is not None:
            yield Text(printable(f"{each.master}: {each.fault}"), style="red")
        elif each.group is not None:
            style = "" if each.group.votes else "red"
            yield Text(printable(f"{each.master}: {led(each.group, now)}"), style=style)
