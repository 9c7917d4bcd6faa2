"""redis-py's own Lock: one master, looking each 100 ms (``sleep``). Not reentrant; renewing is the user's."""

from __future__ import annotations

import redis
from library import Library, Lock
from redis.lock import Lock as Peer


class RedisPy(Library):
    name = "redis-py Lock"
    version = redis.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.Redis.from_url(masters[0])
        self.client.ping()
        self.ttl = ttl_ms / 1000
        self.sleep = 0.1 if poll_ms is None else poll_ms / 1000

    def lock(self, name: str) -> Lock:
        return _Lock(self.client.lock(name, timeout=self.ttl, sleep=self.sleep, thread_local=False))


class _Lock:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def acquire(self, wait_s: float) -> bool:
        return bool(self.peer.acquire(blocking_timeout=wait_s))

    def release(self) -> None:
        self.peer.release()
