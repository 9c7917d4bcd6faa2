"""Turnstile: of the threads of one process that wait for one lock, one talks to the masters."""

from __future__ import annotations

import math
import threading
from collections import deque


class Turnstile:
    """A line for each lock name, first come first served. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lines: dict[str, deque[Turn]] = {}

    def enter(self, turn: Turn, timeout: float) -> bool:
        """Wait for one's turn, at most ``timeout`` seconds (inf: for ever); whether it came.

        `leave` is owed in any case, also after an exception: a turn that came with a Ctrl-C must be
        passed on, or the line stands for ever.
        """
        with self._mutex:
            line = self._lines.get(turn.name)
            if line is None:
                turn.mine = True
                self._lines[turn.name] = deque()
                return True
            turn.parker.acquire()
            line.append(turn)
        if timeout == math.inf:
            turn.parker.acquire()
        else:
            turn.parker.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        # The turn may come at the very moment at which the time ends; then it is taken.
        return turn.mine

    def leave(self, turn: Turn) -> None:
        """Let the next one in, or step out of the line. Twice is once."""
        with self._mutex:
            line = self._lines.get(turn.name)
            if line is None:
                return
            if not turn.mine:
                if turn in line:
                    line.remove(turn)
                return
            turn.mine = False
            if line:
                following = line.popleft()
                following.mine = True
                following.parker.release()
            else:
                del self._lines[turn.name]


class Turn:
    """A thread's place in a line."""

    __slots__ = ("mine", "name", "parker")

    def __init__(self, name: str) -> None:
        self.name = name
        self.mine = False
        self.parker = threading.Lock()
