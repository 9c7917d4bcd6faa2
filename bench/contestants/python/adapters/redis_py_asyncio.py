"""redis-py's Lock for asyncio: as the blocking one, awaited."""

from __future__ import annotations

import redis.asyncio
from library import AsyncLibrary, Lock


class RedisPyAsyncio(AsyncLibrary):
    version = redis.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.asyncio.Redis.from_url(masters[0])
        self.ttl = ttl_ms / 1000
        self.sleep = 0.1 if poll_ms is None else poll_ms / 1000

    async def start(self) -> None:
        await self.client.ping()

    def lock(self, name: str) -> Lock:
        peer = self.client.lock(name, timeout=self.ttl, sleep=self.sleep, thread_local=False)
        return Lock(lambda wait_s: peer.acquire(blocking_timeout=wait_s), peer.release)
