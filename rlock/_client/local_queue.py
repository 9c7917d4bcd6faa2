"""LocalQueue: of the owners of one process that wait for one lock, one asks the masters.

A line for each lock name, first come first served. Ctrl-C can come between any two lines, also in the
`finally` in which an owner leaves. So nobody trusts the owner in front: it is gone if it has left, or if its
contender was collected, and the others look twice a second.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque

from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from .runtime import Runtime

#: How often the owners in line look whether the one in front is still there.
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
    """The lines of one process. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = threading.Lock()
        self._lines: dict[str, _Line] = {}

    def join(self, contender: Contender) -> bool:
        """Whether its turn comes at once; if not, it stands in the line now. `leave` is owed."""
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
        """Wait for its turn, at most ``timeout`` seconds (inf: no limit); whether it came."""
        while not self._is_first(contender):
            if timeout <= 0:
                return False
            yield from contender.parker.park(min(timeout, LOOK_S))
            timeout -= LOOK_S
            with self._mutex:
                line = self._lines.get(contender.name)
                if line is not None:
                    self._advance(line)
        return True

    def leave(self, contender: Contender) -> None:
        """Let the next owner ask, or step out of the line. Twice is once."""
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
        """How many owners stand behind the one that asks."""
        with self._mutex:
            line = self._lines.get(name)
            return len(line.waiting) if line is not None and line.waiting else 0

    def _is_first(self, contender: Contender) -> bool:
        with self._mutex:
            line = self._lines.get(contender.name)
            return line is not None and line.first() is contender

    def _advance(self, line: _Line) -> None:
        while line.deserted and line.waiting:
            following = line.waiting.popleft()
            line.first = weakref.ref(following)
            following.parker.wake()
