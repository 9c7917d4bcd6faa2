"""portalocker's RedisLock, shared and exclusive: one master, a subscription for each hold, and no lease."""

from __future__ import annotations

import redis
from library import Library, Lock
from portalocker import LockFlags, RedisLock, __version__


class Portalocker(Library):
    version = __version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.Redis.from_url(masters[0], health_check_interval=10)
        self.client.ping()

    def lock(self, name: str, flags: LockFlags = LockFlags.EXCLUSIVE) -> Lock:
        # At its default a lost lock sends Ctrl-C to the main thread.
        peer = RedisLock(name, connection=self.client, flags=flags, interrupt_on_lost=False)
        return Lock(lambda wait_s: peer.acquire(timeout=wait_s), peer.release)

    def shared(self, name: str) -> Lock:
        return self.lock(name, LockFlags.SHARED)
