"""The rows of the table of bad neighbours: what others saw, and what the log said."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, replace

HEAD = ["fault", "slower", "pause", "MB", "noticed", "warnings", "log"]
LONGEST = 70


@dataclass(frozen=True)
class Row:
    fault: str
    slower: float
    pause: float
    grew_mb: float
    noticed: float  # seconds after it began; -1: no line of the log is due
    warnings: int
    log: str

    def worse(self, other: Row) -> Row:
        figures = ("slower", "pause", "grew_mb", "noticed", "warnings")
        return replace(self, **{name: max(getattr(self, name), getattr(other, name)) for name in figures})

    @property
    def cells(self) -> list[str]:
        noticed = f"{self.noticed:.1f} s" if self.noticed >= 0 else "-"
        figures = [f"{self.slower:.2f}", f"{self.pause:.2f} s", f"{self.grew_mb:.1f}", noticed]
        return [self.fault, *figures, str(self.warnings), _short(self.log)]


def _short(text: str) -> str:
    """The begin of a text, without the addresses of this run."""
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST:PORT", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "…", text).replace("|", "/").replace("`", "'")
    return f"`{text[:LONGEST]}`" if text else "-"


class Log(logging.Handler):
    """The warnings that name a master, with their instants, until it is closed."""

    def __init__(self, label: str) -> None:
        super().__init__(logging.WARNING)
        self.label, self.lines = label, list[tuple[float, str]]()
        logging.getLogger("rlock").addHandler(self)

    def close(self) -> None:
        logging.getLogger("rlock").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if self.label and self.label in text:
            self.lines.append((time.monotonic(), text))
