"""Local time: a clock that never steps and that counts suspend."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

#: Returns an instant in seconds. Only differences mean anything.
Clock = Callable[[], float]


def _local_clock() -> Clock:
    # CLOCK_MONOTONIC stops during suspend: a holder that woke up would trust a lease that ended long ago.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        # On macOS CLOCK_MONOTONIC goes on during sleep, and time.monotonic() does not.
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


#: The clock of every client, unless a test injects another.
now: Clock = _local_clock()
