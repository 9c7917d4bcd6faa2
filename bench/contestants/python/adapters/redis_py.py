"""redis-py's own Lock: one master, looking each 100 ms (``sleep``). Not reentrant; renewing is the user's."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import redis
import redis.sentinel
from library import Library, Lock
from redis.backoff import NoBackoff
from redis.retry import Retry


def client_of(url: str) -> Any:
    """A client of a master, or of a group by its Sentinels with options for bench/failover.py."""
    if not url.startswith("redis+sentinel:"):
        return redis.Redis.from_url(url)
    _, password, hosts, service = re.split("://:|[@/]", url)
    options = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}
    sentinels = [host.split(":") for host in hosts.split(",")]
    kwargs = {**options, "password": password}
    return redis.sentinel.Sentinel(sentinels, sentinel_kwargs=kwargs, **kwargs).master_for(service)


class RedisPy(Library):
    version = redis.__version__

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = client_of(masters[0])
        self.client.ping()
        self.ttl = ttl_ms / 1000
        self.sleep = 0.1 if poll_ms is None else poll_ms / 1000

    def lock(self, name: str) -> Lock:
        peer = self.client.lock(name, timeout=self.ttl, sleep=self.sleep, thread_local=False)
        return Lock(lambda wait_s: peer.acquire(blocking_timeout=wait_s), peer.release)


class RedisPyThenWait(RedisPy):
    """With a WAIT for the replica, without which the hold is given up."""

    def lock(self, name: str) -> Lock:
        lock = super().lock(name)

        def acquire(wait_s: float) -> bool:
            if not lock.acquire(wait_s):
                return False
            copied = bool(self.client.wait(1, 200))
            if not copied:
                with suppress(redis.RedisError, redis.exceptions.LockError):
                    lock.release()
            return copied

        return Lock(acquire, lock.release)
