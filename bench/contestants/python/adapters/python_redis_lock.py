"""python-redis-lock: one master; who waits sleeps in a BLPOP, so there is nothing to poll faster.

Not reentrant: a second acquire raises AlreadyAcquired. ``auto_renewal`` is off by default; it is on for
locks that are held for long.
"""

from __future__ import annotations

import math

import redis
import redis_lock
from library import Library, Lock


class PythonRedisLock(Library):
    version = redis_lock.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        # redis-py gives up reading after 5 s: shorter than the BLPOP of who waits for one lease of 10 s, who
        # would get an error instead of the lock.
        # Each lock that is kept renews in a thread of its own: with the pool of 100 connections that redis-py
        # has by default, some of 500 would find none and lapse.
        self.client = redis.StrictRedis.from_url(masters[0], socket_timeout=None, max_connections=10_000)
        self.client.ping()
        self.expire_s = max(1, math.ceil(ttl_ms / 1000))  # whole seconds

    def lock(self, name: str) -> Lock:
        return self.of(redis_lock.Lock(self.client, name, expire=self.expire_s))

    def kept(self, name: str) -> Lock:
        return self.of(redis_lock.Lock(self.client, name, expire=self.expire_s, auto_renewal=True))

    def of(self, peer: redis_lock.Lock) -> Lock:
        def acquire(wait_s: float) -> object:
            # It cuts a time-out to whole seconds, takes 0 for "as long as it takes", and refuses one that is
            # longer than the lease.
            timeout = math.ceil(wait_s)
            return peer.acquire(timeout=timeout if timeout <= self.expire_s else None)

        return Lock(acquire, peer.release)
