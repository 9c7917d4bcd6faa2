"""The pulse of a process: when it did not run, by SIGSTOP or because the machine had other things to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .journal import SECOND, now_ns

#: How often the pulse is felt, and how late it must be to say that the process did not run.
PULSE_S, STALL_S = 0.05, 0.25


def feel_pulse(note: Callable[[int, int], object], over: threading.Event) -> None:
    """Call ``note`` with begin and end of each time in which this process did not run, until it is over."""
    before = now_ns()
    while not over.wait(PULSE_S):
        now = now_ns()
        if now - before > (PULSE_S + STALL_S) * SECOND:
            note(before, now)
        before = now
