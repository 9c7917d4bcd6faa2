"""Tables that fit: columns that shrink, and others that are left out, before a line is too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from ..words import cut, padded, printable, width

GAP = 2
#: A column that shrinks keeps so much, whatever is left out.
LEAST = 10


@dataclass(frozen=True)
class Column:
    """One column.

    ``shrinks``: it may be cut, to so many columns before others are left out; 0: never. ``drop``: left out
    where there is no room, the highest first; 0: never.
    """

    title: str
    right: bool = False
    shrinks: int = 0
    drop: int = 0


@dataclass(frozen=True)
class Cell:
    """A text in a table; ``spans``: it goes on to the end of the line.

    Whoever wrote the text: what is not printable is shown as ``\\\\xNN``.
    """

    text: str
    style: str = ""
    spans: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int, *, utf8: bool) -> list[Text]:
    """The head and the rows as lines of at most ``room`` columns."""
    natural = {
        i: max([width(column.title), *(width(row[i].text) for row in rows if _has(row, i))])
        for i, column in enumerate(columns)
    }
    widths = _shrunk(natural, columns, room)
    for i in sorted(natural, key=lambda i: -columns[i].drop):
        if columns[i].drop and _excess(widths, room) > 0:
            del natural[i]
            widths = _shrunk(natural, columns, room)
    widths = _shrunk(widths, columns, room, LEAST)
    mark = "…" if utf8 else ".."
    head = [Cell(column.title, "dim") for column in columns]
    return [_line(row, columns, widths, room, mark) for row in (head, *rows)]


def _excess(widths: Mapping[int, int], room: int) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1) - room


def _shrunk(
    widths: Mapping[int, int], columns: Sequence[Column], room: int, least: int = 0
) -> dict[int, int]:
    """The widths, less what is too much, taken from the widest that may shrink: it has most to spare."""
    shrunk = dict(widths)
    while _excess(shrunk, room) > 0:
        able = [
            i for i, wide in shrunk.items() if columns[i].shrinks and wide > (least or columns[i].shrinks)
        ]
        if not able:
            break
        shrunk[max(able, key=lambda i: shrunk[i])] -= 1
    return shrunk


def _has(row: Sequence[Cell], i: int) -> bool:
    return i < len(row) and not row[i].spans


def _line(
    row: Sequence[Cell], columns: Sequence[Column], widths: dict[int, int], room: int, mark: str
) -> Text:
    line, used = Text(), 0
    for i, columns_wide in widths.items():
        if i >= len(row):
            break
        if used:
            line.append(" " * GAP)
            used += GAP
        wide = room - used if row[i].spans else columns_wide
        told = cut(row[i].text, wide, mark)
        told = " " * (wide - width(told)) + told if columns[i].right else padded(told, wide)
        line.append(told, row[i].style)
        used += wide
    line.rstrip()
    return line
