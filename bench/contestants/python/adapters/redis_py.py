"""redis-py's own Lock: one master, looking each 100 ms (``sleep``). Not reentrant; renewing is the user's."""

from __future__ import annotations

import redis
from library import Library, Lock


class RedisPy(Library):
    version = redis.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.Redis.from_url(masters[0])
        self.client.ping()
        self.ttl = ttl_ms / 1000
        self.sleep = 0.1 if poll_ms is None else poll_ms / 1000

    def lock(self, name: str) -> Lock:
        peer = self.client.lock(name, timeout=self.ttl, sleep=self.sleep, thread_local=False)
        return Lock(lambda wait_s: peer.acquire(blocking_timeout=wait_s), peer.release)
