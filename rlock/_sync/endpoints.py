"""The endpoints of the blocking driver."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, parse_url
from redis.retry import Retry

from .._client import endpoints
from .._client.handshake import ConnectOptions
from .connection import SocketConnection, connect


class Endpoint(endpoints.Endpoint):
    """One master's address; a thread connects."""

    redis_py = endpoints.RedisPyClasses(
        redis.Redis,
        redis.Connection,
        redis.SSLConnection,
        parse_url,
        endpoints.quiet(AbstractConnection),
        Retry(NoBackoff(), 0),
        hint="use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.Redis object",
    )

    def connect(self, options: ConnectOptions) -> SocketConnection:
        """A connection after its handshake. Blocks; raises `ConnectError`."""
        return connect(self.connection(options.timeout, options.connect_timeout), self.label, options)
