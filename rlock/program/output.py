"""What the commands print: JSON with the words of the glossary, or text, with colours on a terminal only."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add --json; the command gets it as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def print_json(value: Any, *, err: bool = False) -> None:
    """One line; with ``err`` on stderr."""
    click.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False), err=err)


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
    """Coloured where colours are wanted; `click.echo` takes them away where there is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


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
