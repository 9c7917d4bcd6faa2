"""django-redis with `cache.lock` on a quorum: settings alone.

    CACHES = {"default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": "redis://10.0.0.1:6379/1",
        "OPTIONS": {
            "CLIENT_CLASS": "rlock.compat.django_redis.Client",
            "RLOCK": {"masters": ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"], "ttl": 10},
        },
    }}

``RLOCK`` holds the arguments of `rlock.Client`; without ``masters`` the lock is on the cache's own primary.
"""

from __future__ import annotations

import json
from typing import Any

from django_redis.client import DefaultClient

import rlock

from . import redis_py

#: By their arguments: all caches of a process with one quorum share its connections.
_clients: dict[str, rlock.Client] = {}


class Client(DefaultClient):  # type: ignore[misc]
    """`DefaultClient` whose locks are held on the masters of OPTIONS["RLOCK"]."""

    def lock(
        self,
        key: str,
        version: int | None = None,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        client: Any = None,
        thread_local: bool = True,
    ) -> redis_py.Lock:
        """A lock with the interface of redis-py's, see `rlock.compat.redis_py`."""
        options = {"masters": self._server[0], **self._options.get("RLOCK", {})}
        made = _clients.get(known := json.dumps(options, sort_keys=True))
        if made is None:
            made = _clients.setdefault(known, rlock.Client(**options))
        lock_class, name = redis_py.lock_class(made), self.make_key(key, version=version)
        return lock_class(client, name, timeout, sleep, blocking, blocking_timeout, thread_local)
