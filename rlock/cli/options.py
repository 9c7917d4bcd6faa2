"""Options, and kinds of values, that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.types import FloatParamType

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(FloatParamType):
    """A number of seconds. click's own lets `nan` through, which is in no range and out of none."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return found


class Duration(Seconds):
    """A number of seconds above 0, or of minutes, hours or days with m, h or d behind it."""

    name = "duration, such as 90, 90s, 10m or 2h"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of seconds."""
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(str(value)[-1:], 0)
        seconds = super().convert(str(value)[:-1] if unit else value, param, ctx) * (unit or 1)
        if seconds <= 0:
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return seconds


class SecondsWithin(Seconds, click.FloatRange):
    """A number of seconds with bounds. The help text tells them; without any it would say `x<=None`."""


class Whole(click.IntRange):
    """A whole number with bounds."""

    name = "whole number"


def count_option(
    *names: str, within: tuple[int, int], default: int, told: str, metavar: str = "N"
) -> Callable[[F], F]:
    """An option that is a whole number."""
    kind = Whole(*within)
    return click.option(*names, metavar=metavar, type=kind, default=default, show_default=True, help=told)


def limit_option(default: int, most: int) -> Callable[[F], F]:
    """--limit: how many locks are shown."""
    told = "Show so many at the most; those that are waited for go before."
    return count_option("--limit", within=(1, most), default=default, told=told)


def seconds_option(*names: str, within: tuple[float, float], default: float, told: str) -> Callable[[F], F]:
    """An option that is a number of seconds."""
    kind = SecondsWithin(*within)
    return click.option(*names, metavar="S", type=kind, default=default, show_default=True, help=told)
