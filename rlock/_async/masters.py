"""Masters, as the asyncio driver reaches them."""

from __future__ import annotations

import redis.asyncio
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .._driver import masters
from .._driver.links import Call
from .links import StreamLink, dial


class Endpoint(masters.Endpoint):
    """Where one master is; dialled by a task."""

    kit = masters.Kit(
        redis.asyncio.Redis,
        redis.asyncio.Connection,
        redis.asyncio.SSLConnection,
        parse_url,
        masters.quiet(AbstractConnection),
        Retry(NoBackoff(), 0),
        hint="use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.asyncio.Redis",
    )

    async def dial_async(self, call: Call) -> StreamLink:
        """A connection with its greeting over. Raises `DialError`."""
        return await dial(self.connection(call.timeout, call.connect_timeout), self.label, call)
