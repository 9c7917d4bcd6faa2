"""redis-lock-py's RedisLock: one master; who waits listens to a channel, so there is nothing to poll faster.

Not reentrant. The time to wait is an argument of its constructor, and its page makes an object for each use.
"""

from __future__ import annotations

import math

import redis
import redis_lock
from library import Library, Lock


class RedisLockPy(Library):
    name = "redis-lock-py"
    version = redis_lock.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.Redis.from_url(masters[0])
        self.client.ping()
        self.expire_s = max(1, math.ceil(ttl_ms / 1000))  # whole seconds

    def lock(self, name: str) -> Lock:
        return _Lock(self, name)


class _Lock:
    def __init__(self, library: RedisLockPy, name: str) -> None:
        self.library, self.name = library, name

    def acquire(self, wait_s: float) -> bool:
        # 0 is refused by its constructor.
        self.peer = redis_lock.RedisLock(
            self.library.client, self.name, max(wait_s, 0.001), self.library.expire_s
        )
        return bool(self.peer.acquire())

    def release(self) -> None:
        self.peer.release()
