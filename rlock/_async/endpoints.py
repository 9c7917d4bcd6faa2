"""The endpoints of the asyncio driver."""

from __future__ import annotations

import redis.asyncio
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .._client import endpoints
from .._client.handshake import ConnectOptions
from .connection import StreamConnection, connect


class Endpoint(endpoints.Endpoint):
    """One master's address; a task connects."""

    redis_py = endpoints.RedisPyClasses(
        redis.asyncio.Redis,
        redis.asyncio.Connection,
        redis.asyncio.SSLConnection,
        parse_url,
        endpoints.quiet(AbstractConnection),
        Retry(NoBackoff(), 0),
        hint="use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.asyncio.Redis",
    )

    async def connect_async(self, options: ConnectOptions) -> StreamConnection:
        """A connection after its handshake. Raises `ConnectError`."""
        return await connect(self.connection(options.timeout, options.connect_timeout), self.label, options)
