"""How things are said to people: figures, and the texts of others, which may hold anything."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence


def seconds(value: float) -> str:
    """A duration for people: 0.4 s, 12 s, 3 min 20 s, 5 h 2 min."""
    if value < 10:
        return f"{value:.1f} s"
    whole = int(value)  # cut off, or 299.7 would be 4 min 60 s
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def age(since: float) -> str:
    """When it was, and how long ago."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    return f"{clock} ({seconds(max(0.0, time.time() - since))})"


def ms(seconds: float) -> str:
    """0.24 ms, 12 ms, 1300 ms."""
    value = seconds * 1000
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def span(seconds: float) -> str:
    """A difference of clocks: 0.3 ms, 42 ms, 3600.0 s."""
    return ms(abs(seconds)) if abs(seconds) < 1 else f"{abs(seconds):.1f} s"


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("bytes", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def percent(ratio: float) -> str:
    """0.012 %, 1.2 %."""
    value = abs(ratio) * 100
    return f"{value:.3f} %" if value < 0.1 else f"{value:.1f} %"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def printable(text: str) -> str:
    """The text with what would move the cursor, or hide, as ``\\\\xNN``: names are whatever programs make."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def width(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def padded(text: str, columns: int) -> str:
    """The text with blanks up to so many columns."""
    return text + " " * (columns - width(text))


def cut(text: str, columns: int, mark: str = "…") -> str:
    """The text in at most so many columns, with a mark in its middle where something is missing.

    In the middle, because names and hosts of a fleet begin alike, and end alike.
    """
    if width(text) <= columns:
        return text
    room = columns - width(mark)
    if room <= 0:
        return mark[:columns]
    head, tail = "", ""
    for i in range(len(text)):
        if width(head + text[i] + tail) > room:
            break
        head += text[i]
        if width(head + text[-1 - i] + tail) > room:
            break
        tail = text[-1 - i] + tail
    return head + mark + tail
