"""LocalQueue: for each lock, one owner of a process asks the masters, and the others wait behind it.

Ctrl-C can keep an owner from leaving, even inside a `finally`. So the others look twice a second whether the
owner in front has left, or its contender was collected.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque

from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from .runtime import Runtime

#: How often waiting owners check whether the owner in front has gone.
LOOK_S = 0.5


class _Line:
    """The owner that asks the masters, and the owners behind it."""

    __slots__ = ("first", "waiting")

    def __init__(self, first: Contender) -> None:
        self.first = weakref.ref(first)
        self.waiting: deque[Contender] | None = None  # made for the first owner that has to wait

    @property
    def deserted(self) -> bool:
        first = self.first()
        return first is None or first.has_left


class LocalQueue:
    """The local queues of one process, by lock. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = threading.Lock()
        self._lines: dict[str, _Line] = {}

    def join(self, contender: Contender) -> bool:
        """Join the line; whether the contender is first. The caller must `leave` in any case."""
        with self._mutex:
            line = self._lines.get(contender.name)
            if line is None:
                self._lines[contender.name] = _Line(contender)
                return True
            contender.parker = self._runtime.parker()
            if line.waiting is None:
                line.waiting = deque()
            line.waiting.append(contender)
            self._advance(line)
            return False

    def wait(self, contender: Contender, timeout: float) -> WaitGenerator[bool]:
        """Wait at most ``timeout`` seconds (inf: no limit) until the contender is first; whether it is."""
        while True:
            with self._mutex:
                line = self._lines.get(contender.name)
                if line is not None:
                    self._advance(line)
                    if line.first() is contender:
                        return True
            if timeout <= 0 or contender.until < 0:  # AT_ONCE: changed meanwhile
                return False
            yield from contender.parker.park(min(timeout, LOOK_S))
            timeout -= LOOK_S

    def leave(self, contender: Contender) -> None:
        """Leave the line; the next owner becomes first. A second call does nothing."""
        contender.has_left = True
        with self._mutex:
            line = self._lines.get(contender.name)
            if line is not None:
                if line.waiting:
                    if contender in line.waiting:
                        line.waiting.remove(contender)
                    self._advance(line)
                if line.deserted and not line.waiting:
                    del self._lines[contender.name]

    def length(self, name: str) -> int:
        """The number of owners behind the first."""
        with self._mutex:
            line = self._lines.get(name)
            return len(line.waiting) if line is not None and line.waiting else 0

    def _advance(self, line: _Line) -> None:
        while line.deserted and line.waiting:
            following = line.waiting.popleft()
            line.first = weakref.ref(following)
            following.parker.wake()
