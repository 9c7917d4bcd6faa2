"""Tables that fit: columns that shrink, and others that are left out, before a line is too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from ..survey.words import cut, padded, width

GAP = 2
#: A column that shrinks keeps so much.
LEAST = 10


@dataclass(frozen=True)
class Column:
    """One column. ``drop``: left out where there is no room, the highest first; 0: never."""

    title: str
    right: bool = False
    shrinks: bool = False
    drop: int = 0


@dataclass(frozen=True)
class Cell:
    """A text in a table; ``spans``: it goes on to the end of the line."""

    text: str
    style: str = ""
    spans: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int, *, utf8: bool) -> list[Text]:
    """The head and the rows as lines of at most ``room`` columns."""
    widths = {
        i: max([width(column.title), *(width(row[i].text) for row in rows if _has(row, i))])
        for i, column in enumerate(columns)
    }

    def excess() -> int:
        return sum(widths.values()) + GAP * (len(widths) - 1) - room

    def shrink(least: int) -> None:
        # The widest first: it has most to spare.
        while (over := excess()) > 0:
            able = {i: w for i, w in widths.items() if columns[i].shrinks and w > least}
            if not able:
                return
            widest = max(able, key=lambda i: able[i])
            widths[widest] -= 1 if len(able) > 1 else min(over, able[widest] - least)

    shrink(2 * LEAST)
    for i in sorted(widths, key=lambda i: -columns[i].drop):
        if excess() > 0 and columns[i].drop:
            del widths[i]
    shrink(LEAST)
    mark = "…" if utf8 else ".."
    head = [Cell(column.title, "dim") for column in columns]
    return [_line(row, columns, widths, room, mark) for row in (head, *rows)]


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
