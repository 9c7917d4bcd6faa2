"""sherlock's RedisLock: one master, looking each 100 ms (``retry_interval``). It is not reentrant."""

from __future__ import annotations

from importlib.metadata import version

import redis
from library import Library, Lock
from sherlock import RedisLock


class Sherlock(Library):
    version = version("sherlock")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = redis.Redis.from_url(masters[0])
        self.client.ping()
        self.options = {"expire": round(ttl_ms / 1000), "retry_interval": (poll_ms or 100) / 1000}

    def lock(self, name: str) -> Lock:
        peer = RedisLock(name, client=self.client, **self.options)

        def acquire(wait_s: float) -> object:
            peer.timeout = wait_s  # it counts its pauses alone, not the time of its tries
            return peer.acquire()

        return Lock(acquire, peer.release)
