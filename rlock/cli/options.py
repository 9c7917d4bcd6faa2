"""Kinds of values that options of several commands have."""

from __future__ import annotations

import math
from typing import Any

import click
from click.types import FloatParamType


class Seconds(FloatParamType):
    """A number of seconds. click's own lets `nan` through, which is in no range and out of none."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return found


class SecondsWithin(Seconds, click.FloatRange):
    """A number of seconds with bounds. The help text tells them; without any it would say `x<=None`."""
