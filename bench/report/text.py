"""Tables and figures as text."""

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

    def lines(self) -> list[str]:
        """In columns: the first one is text, the others are aligned to the right."""
        rows = (self.heading, *self.rows)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"  {self.caption}"] if self.caption else []
        for first, *others in rows:
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  " + "  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return [*lines, *(f"  ! {note}" for note in self.notes), ""]
