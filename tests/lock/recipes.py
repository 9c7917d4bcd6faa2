"""Helpers for the tests of the semaphore and of several names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import rlock
from rlock.testing import MemoryMasters


class Rounds:
    """Counts the round trips of a client for which somebody waits."""

    def __init__(self, client: rlock.Client) -> None:
        self._masters: Any = client._engine().masters
        self.count = 0

    def __enter__(self) -> Rounds:
        for name in ("call", "call_many"):
            setattr(self._masters, name, self._counted(getattr(self._masters, name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._masters.call, self._masters.call_many

    def _counted(self, method: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            return method(*arguments, **options)

        return counted


@contextmanager
def waiting(lock: Any) -> Iterator[threading.Thread]:
    """A thread that acquires and releases."""

    def wait() -> None:
        with lock:
            pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield thread
    thread.join(10.0)


def keys(masters: MemoryMasters) -> list[set[str]]:
    """The locks and queues on each master."""
    found = []
    for master in masters:
        with master.mutex:
            there = [key for key in list(master._keys.keys) if master._keys.look(key)]
        found.append({key for key in there if key != "rlock:fleet" and not key.endswith(":fence")})
    return found
