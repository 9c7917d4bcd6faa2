"""LocalQueue: of the owners of one process that wait for one lock, one talks to the masters."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque

from .waits import Waits

#: How often those in line look whether the one in front is still there. A Ctrl-C can come between any two
#: lines of its `finally`, and a line that trusts it would stand for ever.
LOOK_S = 0.5


class LocalTurn(ABC):
    """An owner's place in a line. Whoever made it owes `leave`, after an exception as well."""

    __slots__ = ("__weakref__", "name", "over")

    def __init__(self, name: str) -> None:
        self.name = name
        #: Its owner has gone on, whether or not it could say so to the line.
        self.over = False

    @abstractmethod
    def prepare(self) -> None:
        """Before it is stirred, or sleeps, for the first time: most never do."""

    @abstractmethod
    def stir(self) -> None:
        """Let its owner look whether it is first."""

    @abstractmethod
    def sleeping(self, timeout: float) -> Waits[None]:
        """Until it is stirred, at most so many seconds."""


class _Line:
    """Who is at the turnstile, and who stands behind."""

    __slots__ = ("first", "waiting")

    def __init__(self, first: LocalTurn) -> None:
        self.first = weakref.ref(first)
        #: Made for the first who has to stand there: mostly nobody does.
        self.waiting: deque[LocalTurn] | None = None

    @property
    def deserted(self) -> bool:
        first = self.first()
        return first is None or first.over


class LocalQueue:
    """A line for each lock name, first come first served. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lines: dict[str, _Line] = {}

    def enter(self, turn: LocalTurn) -> bool:
        """Whether it is one's turn at once; if not, one stands in the line now."""
        with self._mutex:
            line = self._lines.get(turn.name)
            if line is None:
                self._lines[turn.name] = _Line(turn)
                return True
            turn.prepare()
            if line.waiting is None:
                line.waiting = deque()
            line.waiting.append(turn)
            self._advance(line)
            return False

    def waiting(self, turn: LocalTurn, timeout: float) -> Waits[bool]:
        """Wait for one's turn, at most ``timeout`` seconds (inf: for ever); whether it came."""
        while not self._is_first(turn):
            if timeout <= 0:
                return False
            yield from turn.sleeping(min(timeout, LOOK_S))
            timeout -= LOOK_S
            with self._mutex:
                line = self._lines.get(turn.name)
                if line is not None:
                    self._advance(line)
        return True

    def leave(self, turn: LocalTurn) -> None:
        """Let the next one in, or step out of the line. Twice is once."""
        turn.over = True
        with self._mutex:
            line = self._lines.get(turn.name)
            if line is not None:
                if line.waiting:
                    if turn in line.waiting:
                        line.waiting.remove(turn)
                    self._advance(line)
                if line.deserted and not line.waiting:
                    del self._lines[turn.name]

    def length(self, name: str) -> int:
        """How many stand behind the one that is at the turnstile."""
        with self._mutex:
            line = self._lines.get(name)
            return len(line.waiting) if line is not None and line.waiting else 0

    def _is_first(self, turn: LocalTurn) -> bool:
        with self._mutex:
            line = self._lines.get(turn.name)
            return line is not None and line.first() is turn

    def _advance(self, line: _Line) -> None:
        while line.deserted and line.waiting:
            following = line.waiting.popleft()
            line.first = weakref.ref(following)
            following.stir()
