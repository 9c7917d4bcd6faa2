"""Masters, as the blocking driver reaches them."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, parse_url
from redis.retry import Retry

from .._client import endpoints
from .._client.connection import ConnectOptions
from .connection import SocketConnection, connect


class Endpoint(endpoints.Endpoint):
    """Where one master is; dialled by a thread."""

    kit = endpoints.RedisPyClasses(
        redis.Redis,
        redis.Connection,
        redis.SSLConnection,
        parse_url,
        endpoints.quiet(AbstractConnection),
        Retry(NoBackoff(), 0),
        hint="use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.Redis object",
    )

    def connect(self, call: ConnectOptions) -> SocketConnection:
        """A connection with its greeting over. Blocks; raises `ConnectError`."""
        return connect(self.connection(call.timeout, call.connect_timeout), self.label, call)
