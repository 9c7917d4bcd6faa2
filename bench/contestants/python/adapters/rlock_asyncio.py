"""rlock's asyncio client, at its default settings, in the event loop of the standard library."""

from __future__ import annotations

from library import AsyncLibrary, AsyncLock

import rlock.asyncio


class OursAsyncio(AsyncLibrary):
    name = "rlock.asyncio"
    version = rlock.__version__
    reentrant = True

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = rlock.asyncio.Client(masters, ttl_ms / 1000)

    def lock(self, name: str) -> AsyncLock:
        return _Lock(self.client.lock(name))


class _Lock:
    __slots__ = ("lock", "release")

    def __init__(self, lock: rlock.asyncio.RLock) -> None:
        self.lock = lock
        self.release = lock.release

    async def acquire(self, wait_s: float) -> bool:
        return await self.lock.acquire(timeout=wait_s)
