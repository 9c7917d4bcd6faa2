"""LocalQueue: for each lock, one owner of a process asks the masters, and the others wait behind it.

Ctrl-C can keep an owner from leaving, even inside a `finally`. So the others look twice a second whether the
owner in front has left, or its contender was collected.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..clock import Clock
from ..errors import NOT_HERE, RLockError
from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from .runtime import Runtime

#: How often waiting owners check whether the owner in front has gone.
RECHECK_S = 0.5


class LocalQueue:
    def __init__(self, runtime: Runtime, clock: Clock, mutex: Any) -> None:
        self._runtime = runtime
        self._clock = clock
        self._mutex = mutex
        #: For each lock the owner that asks the masters, and the owners behind it.
        self._lines: dict[str, list[weakref.ref[Contender]]] = {}

    def join(self, contender: Contender) -> bool:
        """Join the line; whether the contender is first. The caller must `leave` in any case."""
        with self._mutex:
            line = self._lines.get(contender.name)
            if line is None:
                self._lines[contender.name] = [weakref.ref(contender)]
                return True
            if any((it := ref()) and it.key is contender.key and not it.is_withdrawn for ref in line):
                raise RLockError(f"lock {contender.name!r} was not asked for: {NOT_HERE}")
            contender.parker = self._runtime.parker()
            line.append(weakref.ref(contender))
            self._advance(line)
            return False

    def wait(self, contender: Contender, timeout: float) -> WaitGenerator[bool]:
        """Wait at most ``timeout`` seconds (inf: no limit) until the contender is first; whether it is."""
        until = self._clock() + timeout
        while True:
            with self._mutex:
                if self._advance(self._lines.get(contender.name, [])) is contender:
                    return True
            remaining_s = until - self._clock()
            if remaining_s <= 0 or contender.until < 0:  # AT_ONCE: changed meanwhile
                return False
            yield from contender.parker.park(min(remaining_s, RECHECK_S))

    def leave(self, contender: Contender) -> None:
        """Leave the line; the next owner becomes first. A second call does nothing."""
        contender.is_withdrawn = True
        with self._mutex:
            line = self._lines.get(contender.name, [])
            if len(line) > 1:
                line[1:] = [other for other in line[1:] if other() is not contender]
            if self._advance(line) is None:
                self._lines.pop(contender.name, None)

    def _advance(self, line: list[weakref.ref[Contender]]) -> Contender | None:
        """The first owner that has not left. It is woken if another one was first before."""
        moved = False
        while line:
            first = line[0]()
            if first is not None and not first.is_withdrawn:
                if moved:
                    first.parker.wake()
                return first
            del line[0]
            moved = True
        return None
