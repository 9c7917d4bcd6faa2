"""LocalQueue: for each lock, one owner of a process asks the masters, and the others wait behind it.

Ctrl-C can keep an owner from leaving, even inside a `finally`. So the others look now and then
whether the owner in front has left, or its contender was collected.
"""

import weakref
from collections import OrderedDict
from typing import Any

from ..clock import Clock
from ..errors import NOT_HERE, RLockError
from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from ..rules.holds import OwnerKey
from .runtime import Runtime

RECHECK_S = 0.5  # how often waiting owners check whether the owner in front has gone
#: All owners of a line look this often together, at most: otherwise 2,000 tasks would do little else.
CHECKS_A_SECOND = 200

#: The owner that asks the masters, and the owners behind it.
Line = OrderedDict[OwnerKey, "weakref.ref[Contender]"]


class LocalQueue:
    def __init__(self, runtime: Runtime, clock: Clock, mutex: Any) -> None:
        self._runtime = runtime
        self._clock = clock
        self._mutex = mutex
        self._lines: dict[str, Line] = {}

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        with self._mutex:
            line = self._lines.get(contender.name)
            if line is None:
                self._lines[contender.name] = OrderedDict({contender.key: weakref.ref(contender)})
                return True
            self._advance(line)
            before = line.get(contender.key)
            if before is not None and (other := before()) is not None and not other.is_withdrawn:
                raise RLockError(f"lock {contender.name!r} was not asked for: {NOT_HERE}")
            contender.parker = self._runtime.parker()
            line[contender.key] = weakref.ref(contender)
            line.move_to_end(contender.key)
        until = self._clock() + (contender.until - contender.began_at)
        while True:
            with self._mutex:
                line = self._lines.get(contender.name, Line())
                if self._advance(line) is contender:
                    return True
                recheck_s = max(RECHECK_S, len(line) / CHECKS_A_SECOND)
            remaining_s = until - self._clock()
            if remaining_s <= 0 or contender.until < 0:  # AT_ONCE: changed meanwhile
                return False
            yield from contender.parker.park(min(remaining_s, recheck_s))

    def leave(self, contender: Contender) -> None:
        contender.is_withdrawn = True
        with self._mutex:
            line = self._lines.get(contender.name, Line())
            place = line.get(contender.key)
            # _advance drops the first place, and wakes the next owner.
            if place is not None and place() is contender and next(iter(line)) is not contender.key:
                del line[contender.key]
            if self._advance(line) is None:
                self._lines.pop(contender.name, None)

    def _advance(self, line: Line) -> Contender | None:
        """The first owner that has not left. It is woken if another one was first before."""
        moved = False
        while line:
            key = next(iter(line))
            first = line[key]()
            if first is not None and not first.is_withdrawn:
                if moved:
                    first.parker.wake()
                return first
            del line[key]
            moved = True
        return None
