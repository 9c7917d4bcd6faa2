"""What the commands print: JSON, or text for people, with colours on a terminal only."""

from __future__ import annotations

import dataclasses
import enum
import errno
import json
import logging
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeVar

import click

from ..rules.keys import READERS

F = TypeVar("F", bound=Callable[..., Any])

#: Stands for the beginning of a colour until its line is shown. Nobody else can know it: what comes from
#: masters and from the names of locks colours nothing, hides nothing, and moves no cursor.
_COLOUR = f"\x1b{os.urandom(8).hex()}"
_objects = False  #: after --json of `run` and `hold`, what is wrong is an object, too


def json_option(command: F) -> F:
    """Add --json; the command gets it as ``as_json``."""
    how: Any = {"is_flag": True, "is_eager": True, "callback": _noted}
    return click.option("--json", "as_json", help="Print JSON, one object a line.", **how)(command)


def _noted(context: click.Context, _: click.Parameter, as_json: bool) -> bool:
    global _objects
    _objects = as_json and context.command.name in ("run", "hold")
    return as_json


def print_json(value: Any, *, err: bool = False) -> None:
    """One line; with ``err`` on stderr."""
    stream = sys.stderr if err else _stdout()
    # What is no ASCII would be a `\\xe9` there, and that is no JSON.
    click.echo(to_json(value, ascii_only=not utf8(stream)), err=err)


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """One line that a terminal shows as it is: JSON itself lets some control characters stand."""
    text = json.dumps(plain(value), ensure_ascii=ascii_only, allow_nan=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def plain(value: Any) -> Any:
    """What JSON can hold: of our dataclasses the fields, of our words their text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return round(value, 6)  # microseconds: all that clocks tell
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def styled(text: str, **style: Any) -> str:
    """Coloured where colours are wanted, in a line that `show` shows."""
    if os.environ.get("NO_COLOR"):
        return text
    return click.style(printable(text), **style).replace("\x1b", _COLOUR)


def show(line: str = "", *, err: bool = False) -> None:
    """Print one line of text: the way of all that people read, whoever wrote parts of it.

    The colours are those of `styled`, on a terminal; all else that is not printable is shown as ``\\xNN``.
    """
    if not err:
        _stdout()
    click.echo("\x1b".join(map(printable, line.split(_COLOUR))), err=err)


def _stdout() -> TextIO:
    """Raises OSError if it was closed when the process began: otherwise nobody would learn of it."""
    if sys.__stdout__ is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout


def complain(error: object) -> None:
    """Say on stderr what is wrong: in one line, or in an object where --json prints events."""
    text = " ".join(str(error).split())
    if _objects:
        print_json({"event": "error", "message": text}, err=True)
    else:
        show(f"rlock: {text}", err=True)


def hush() -> None:
    """No log lines: for commands that say themselves what is wrong with each master."""
    logging.getLogger("rlock").setLevel(logging.CRITICAL)


class OneLine(logging.Formatter):
    """What the library logs, as `complain` would say it; a fault in a program keeps its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        lines = [f"rlock: {' '.join(record.getMessage().split())}"]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        return "\n".join(map(printable, lines))


def utf8(stream: TextIO | None) -> bool:
    """Whether it takes more than ASCII."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


# -- texts and figures for people --------------------------------------------------------------------


def printable(text: str) -> str:
    """The text with what would move the cursor, or hide, as ``\\\\xNN``: names are whatever programs make."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def named(owner: str) -> str:
    """An owner token for people; the readers of a lock have one in common."""
    return "readers" if owner == READERS else printable(owner)


def width(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


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
    clock = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(since))
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


def counted(count: int, noun: str) -> str:
    """1 master, 2 masters."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
