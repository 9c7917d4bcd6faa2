"""Turns of tasks."""

from __future__ import annotations

from .._client import local_queue
from .._client.waits import Waits
from .waits import Parker


class LocalTurn(local_queue.LocalTurn):
    """A task's place in a line."""

    __slots__ = ("_parker",)

    _parker: Parker

    def prepare(self) -> None:
        """Before it is stirred, or sleeps, for the first time: most never do."""
        self._parker = Parker()

    def stir(self) -> None:
        """Let its task look whether it is first."""
        self._parker.stir()

    def sleeping(self, timeout: float) -> Waits[None]:
        """Until it is stirred, at most so many seconds."""
        yield from self._parker.sleeping(timeout)
