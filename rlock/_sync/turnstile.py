"""Turnstile: of the threads of one process that wait for one lock, one talks to the masters."""

from __future__ import annotations

import math
import threading
from collections import deque


class Turnstile:
    """A line for each lock name, first come first served. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lines: dict[str, deque[threading.Lock]] = {}

    def enter(self, name: str, timeout: float) -> bool:
        """Wait for one's turn, at most ``timeout`` seconds (inf: for ever). True: `leave` is owed."""
        with self._mutex:
            line = self._lines.get(name)
            if line is None:
                self._lines[name] = deque()
                return True
            parker = threading.Lock()
            parker.acquire()
            line.append(parker)
        try:
            turn = parker.acquire(timeout=-1 if timeout == math.inf else _bounded(timeout))
        except BaseException:
            if not self._step_out(line, parker):
                self.leave(name)  # the turn came with the interrupt: pass it on
            raise
        # The turn may come at the very moment at which the time ends; then it is taken.
        return turn or not self._step_out(line, parker)

    def leave(self, name: str) -> None:
        """Let the next one in."""
        with self._mutex:
            line = self._lines[name]
            if line:
                line.popleft().release()
            else:
                del self._lines[name]

    def _step_out(self, line: deque[threading.Lock], parker: threading.Lock) -> bool:
        with self._mutex:
            try:
                line.remove(parker)
            except ValueError:
                return False
            return True


def _bounded(timeout: float) -> float:
    return min(max(timeout, 0.0), threading.TIMEOUT_MAX)
