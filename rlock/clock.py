"""Local time: a clock that never steps and that counts suspend."""

import sys
import time
from collections.abc import Callable
from functools import partial

Clock = Callable[[], float]  # returns an instant in seconds; only differences mean anything

now: Clock = time.monotonic  # the clock of every client, unless a test injects another
# CLOCK_MONOTONIC stops during suspend: a holder that woke up would trust a lease that ended long ago.
if hasattr(time, "CLOCK_BOOTTIME"):
    now = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":
    # On macOS CLOCK_MONOTONIC goes on during sleep, and time.monotonic() does not.
    now = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
