"""pottery's Redlock: all masters, by a thread for each; it goes on at the majority. Not reentrant.

It tries again after 0 to 200 ms. That is a constant of the class and no option: the tuned one overrides it.
It renews nothing by itself, and can be extended three times.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any

import redis
import redis.sentinel
from library import Library, Lock
from pottery import Redlock
from redis.backoff import NoBackoff
from redis.retry import Retry


class Pottery(Library):
    version = importlib.metadata.version("pottery")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.masters = {_client(url) for url in masters}
        self.ttl_s = ttl_ms / 1000
        self.kind = Redlock
        if poll_ms is not None:
            longest_s = 2 * poll_ms / 1000  # the mean is half of it

            class Tuned(Redlock):
                _RETRY_DELAY = longest_s

            self.kind = Tuned

    def lock(self, name: str) -> Lock:
        peer = self.kind(key=name, masters=self.masters, auto_release_time=self.ttl_s)
        return Lock(lambda wait_s: peer.acquire(timeout=wait_s), peer.release)


def _client(url: str) -> Any:
    """A client of a master, or of a group by its Sentinels with redis-py's options of bench/failover.py."""
    if not url.startswith("redis+sentinel:"):
        return redis.Redis.from_url(url)
    _, password, hosts, service = re.split("://:|[@/]", url)
    options = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}
    sentinels = [host.split(":") for host in hosts.split(",")]
    group = redis.sentinel.Sentinel(sentinels, sentinel_kwargs=options, password=password, **options)
    return group.master_for(service)
