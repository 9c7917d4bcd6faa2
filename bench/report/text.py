"""Tables as text, for a terminal and for a page; and figures as text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


def number(value: float) -> str:
    """Three significant digits: 0.412, 4.12, 41.2, 412, 4,120; a count stays as it is."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 4)}f}"
    # 99.96 would be rounded to 100.0, which has four digits.
    return number(round(value)) if abs(value) >= 10 and abs(round(value, digits)) >= 100 else text


@dataclass
class Table:
    """A heading, rows, and the notes under them."""

    heading: list[str]
    rows: list[list[str]] = field(default_factory=list)
    caption: str = ""
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """In Markdown, without the notes. The first column is text, the others are aligned to the right."""
        rule = [":---", *["---:"] * (len(self.heading) - 1)]
        lines = [f"{self.caption}:\n"] if self.caption else []
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in (self.heading, rule, *self.rows)]
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
    """Escaped: the text of an error may hold a bar, which would end the cell."""
    return " ".join(text.replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Without Markdown."""
    return " ".join(text.replace("**", "").replace("`", "").split())


def quoted(text: str, longest: int = 160) -> str:
    """The text of another program, as one piece of code of a page."""
    # Renderers disagree on how a bar is escaped within code in a table.
    shown = " ".join(text.split()).replace("`", "'").replace("|", "¦")
    return f"`{shown if len(shown) <= longest else shown[: longest - 1] + '…'}`"
