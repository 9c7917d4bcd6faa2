"""Random input from outside: how much of it, and how long and how large a call may become by it.

``RLOCK_FUZZ=50`` plays 50 times as many examples. ``RLOCK_SEED`` repeats those of a day.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

import rlock

from ..seeds import seed_of_the_day

MOST_BYTES = 20_000_000


def fuzz(examples: int, *, shrink: bool = True) -> Callable[[Any], Any]:
    """Other examples each day, behind those that a test names."""
    how = settings(
        max_examples=examples * int(os.environ.get("RLOCK_FUZZ") or 1),
        phases=[Phase.explicit, Phase.generate, *[Phase.shrink] * shrink],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(seed_of_the_day())(how(test))


def within(seconds: float, call: Callable[..., Any], *args: Any, **how: Any) -> Any:
    """The result of a call or our error; no other error, not later than this, and in 20 MB."""
    began = time.monotonic()
    tracemalloc.start()
    try:
        return call(*args, **how)
    except rlock.RLockError as error:
        return error
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert time.monotonic() - began < seconds, "it hung"
        assert most < MOST_BYTES, f"it took {most} bytes"
