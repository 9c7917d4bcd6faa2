"""redis-py's Lock for asyncio: as the blocking one, awaited."""

from __future__ import annotations

import redis.asyncio
from library import AsyncLibrary, AsyncLock
from redis.asyncio.lock import Lock as Peer


class RedisPyAsyncio(AsyncLibrary):
    name = "redis.asyncio Lock"
    version = redis.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.asyncio.Redis.from_url(masters[0])
        self.ttl = ttl_ms / 1000
        self.sleep = 0.1 if poll_ms is None else poll_ms / 1000

    async def start(self) -> None:
        await self.client.ping()

    def lock(self, name: str) -> AsyncLock:
        return _Lock(self.client.lock(name, timeout=self.ttl, sleep=self.sleep, thread_local=False))


class _Lock:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def acquire(self, wait_s: float) -> bool:
        return bool(await self.peer.acquire(blocking_timeout=wait_s))

    async def release(self) -> None:
        await self.peer.release()
