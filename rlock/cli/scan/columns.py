"""The columns of the tables of `rlock list` and `rlock watch`: titles, and cells as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ...model import LockStatus
from ...rules.keys import READERS
from ..output import ms, printable, size, width
from ..output import seconds as duration
from .reading import label, seen, votes
from .snapshot import CLOCK_ALERT_S, MasterHealth

T = TypeVar("T")


class Moment(NamedTuple):
    """When the picture is drawn."""

    now: float  # Unix time
    aged: float  # seconds since the look


class Cell(NamedTuple):
    """A text in a table; other people may have written it."""

    text: str
    style: str = ""


def text_of(cell: Cell | str) -> str:
    """The text of a cell."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column of a table: its title, and what it says of a row."""

    title: str
    cell: Callable[[T, Moment], Cell | str]
    number: bool = False  # aligned to the right
    shrinks: bool = False  # shortened first, where the terminal is too narrow
    from_width: int = 0  # left out of terminals with fewer columns


def lines(columns: Sequence[Column[T]], rows: Sequence[T], moment: Moment) -> Iterator[str]:
    """A table as plain lines, as wide as it is."""
    texts = [
        [column.title, *(printable(text_of(column.cell(row, moment))) for row in rows)] for column in columns
    ]
    widths = [max(map(width, column)) for column in texts]
    for row in zip(*texts, strict=True):
        cells = []
        for column, cell, most in zip(columns, row, widths, strict=True):
            blanks = " " * (most - width(cell))
            cells.append(blanks + cell if column.number else cell + blanks)
        yield "  ".join(cells).rstrip()


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


def _count(lock: LockStatus) -> str:
    if lock.holder == READERS:
        return "-"
    if lock.locked and not lock.hold_count:
        return "kept"  # its holder has finished
    return str(lock.hold_count or "-")


def _held_for(lock: LockStatus, moment: Moment) -> str:
    return "-" if lock.since is None else duration(max(0.0, moment.now - lock.since))


LOCKS: Sequence[Column[LockStatus]] = (
    Column("NAME", lambda lock, _: Cell(lock.name, "bold"), shrinks=True),
    Column("HOLDER", _holder, shrinks=True),
    Column("HELD FOR", _held_for, number=True),
    Column("LEASE", _lease, number=True),
    Column("COUNT", lambda lock, _: _count(lock), number=True, from_width=80),
    Column("WAITERS", lambda lock, _: Cell(str(lock.queue_length or "-"), "cyan"), number=True),
    Column("VOTES", lambda lock, _: Cell(votes(lock), "" if lock.locked else "yellow"), True, from_width=70),
    Column(
        "NEXT",
        lambda lock, _: label(lock.waiters[0].owner) if lock.waiters else "-",
        shrinks=True,
        from_width=110,
    ),
)
