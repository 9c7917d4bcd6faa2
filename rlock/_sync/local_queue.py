"""Turns of threads."""

from __future__ import annotations

import threading

from .._client import local_queue
from .._client.waits import NOTHING, Waits


class LocalTurn(local_queue.LocalTurn):
    """A thread's place in a line."""

    __slots__ = ("_parker",)

    _parker: threading.Lock

    def prepare(self) -> None:
        """Before it is stirred, or sleeps, for the first time: most never do."""
        self._parker = threading.Lock()
        self._parker.acquire()

    def stir(self) -> None:
        """Let its thread look whether it is first."""
        if self._parker.locked():
            self._parker.release()

    def sleeping(self, timeout: float) -> Waits[None]:
        """Until it is stirred, at most so many seconds."""
        self._parker.acquire(timeout=timeout)
        yield from NOTHING
