"""rlock's asyncio client, at its default settings, in the event loop of the standard library."""

from __future__ import annotations

from library import AsyncLibrary, Lock

import rlock.asyncio


class OursAsyncio(AsyncLibrary):
    version = rlock.__version__
    reentrant = True

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = rlock.asyncio.Client(masters, ttl_ms / 1000)

    def lock(self, name: str) -> Lock:
        lock = self.client.lock(name)
        return Lock(lambda wait_s: lock.acquire(timeout=wait_s), lock.release)
