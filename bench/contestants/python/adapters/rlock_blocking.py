"""rlock's blocking client, at its default settings; `Fair`: its locks with ``fair=True``."""

from __future__ import annotations

from library import Library, Lock

import rlock


class Ours(Library):
    name = "rlock"
    version = rlock.__version__
    reentrant = True
    fair = False

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = rlock.Client(masters, ttl_ms / 1000)

    def lock(self, name: str) -> Lock:
        return _Lock(self.client.lock(name, fair=self.fair))

    kept = lock


class Fair(Ours):
    name = "rlock, fair"
    fair = True


class _Lock:
    __slots__ = ("lock", "release")

    def __init__(self, lock: rlock.RLock) -> None:
        self.lock = lock
        self.release = lock.release

    def acquire(self, wait_s: float) -> bool:
        return self.lock.acquire(timeout=wait_s)
