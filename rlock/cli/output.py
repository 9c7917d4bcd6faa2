"""What the commands print: JSON with the words of the glossary, or text, with colours on a terminal only."""

from __future__ import annotations

import dataclasses
import enum
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

from .words import printable

F = TypeVar("F", bound=Callable[..., Any])

#: Stands for the beginning of a colour until its line is shown. Nobody else can know it: what comes from
#: masters and from the names of locks colours nothing, hides nothing, and moves no cursor.
_COLOUR = f"\x1b{secrets.token_hex(8)}"


def json_option(command: F) -> F:
    """Add --json; the command gets it as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def print_json(value: Any, *, err: bool = False) -> None:
    """One line; with ``err`` on stderr."""
    stream = sys.stderr if err else sys.stdout
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
    click.echo("\x1b".join(map(printable, line.split(_COLOUR))), err=err)


def complain(error: object) -> None:
    """Say on stderr what is wrong, in one line."""
    show(f"rlock: {' '.join(str(error).split())}", err=True)


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
