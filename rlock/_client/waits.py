"""Programs: generators that do a piece of work, and yield only where their driver has to wait.

What they yield is the driver's own: nothing in `_sync`, which blocks in place; futures in `_async`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Waits = Generator[Any, Any, T]

#: ``yield from NOTHING`` makes a program of a method that waits in place, or not at all.
NOTHING: tuple[Any, ...] = ()
