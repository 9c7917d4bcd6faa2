"""Waiting by threads: a program blocks in place."""

from __future__ import annotations

from typing import TypeVar

from .._client.waits import Waits

T = TypeVar("T")


def run(program: Waits[T]) -> T:
    """The result of a program of this driver, which yields nothing."""
    try:
        program.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a program of this driver yielded instead of waiting in place")
