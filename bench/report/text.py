"""Tables as text: for a terminal, and for a page. And how a figure is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape


def number(value: float) -> str:
    """Three digits that count, no more are known: 0.412, 4.12, 41.2, 412, 4,120; a count stays as it is."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 4)}f}"
    # 0.0996 has its digits, 99.96 would have four of them.
    return number(round(value)) if abs(value) >= 10 and abs(round(value, digits)) >= 100 else text


def size(value: float) -> str:
    """Bytes, in the unit that a person would choose."""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} GB"


@dataclass
class Table:
    """A heading, rows, and what has to be said under it."""

    heading: list[str]
    rows: list[list[str]] = field(default_factory=list)
    caption: str = ""
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """As a page has it. The first column is text, the others are aligned to the right."""
        rule = [":---", *["---:"] * (len(self.heading) - 1)]
        lines = [f"{self.caption}:\n"] if self.caption else []
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in (self.heading, rule, *self.rows)]
        if self.notes:
            lines += ["", *(f"- {' '.join(note.split())}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def terminal(self) -> str:
        """In columns."""
        shown = [[_plain(cell) for cell in row] for row in (self.heading, *self.rows)]
        widths = [max(len(row[i]) for row in shown) for i in range(len(self.heading))]
        lines = [f"  {self.caption}"] if self.caption else []
        for row in shown:
            first, *others = row
            aligned = [first.ljust(widths[0])]
            aligned += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append(("  " + "  ".join(aligned)).rstrip())
        lines += [f"  ! {_plain(note)}" for note in self.notes]
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Nothing of a cell may end it: an error's text is anybody's, and may hold a bar or a tag."""
    return " ".join(text.replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Without the marks of a page."""
    return " ".join(text.replace("**", "").replace("`", "").split())


def quoted(text: str, longest: int = 160) -> str:
    """What somebody else's program said, as one piece of code of a page."""
    # A bar would have to be escaped in a table, and those who show pages do not agree on how, within code.
    told = " ".join(text.split()).replace("`", "'").replace("|", "¦")
    return f"`{told if len(told) <= longest else told[: longest - 1] + '…'}`"


def tables_of(tables: Sequence[Table], *, page: bool) -> str:
    """Several, one under the other; a page shows the first one, and the others to those who ask."""
    if not page:
        return "\n".join(table.terminal() for table in tables)
    parts = [table.markdown() for table in tables[:1]]
    for table in tables[1:]:
        inside = replace(table, caption="").markdown()
        parts.append(
            f'<details markdown="1">\n<summary>{escape(table.caption)}</summary>\n\n{inside}\n</details>\n'
        )
    return "\n".join(parts)
