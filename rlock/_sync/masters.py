"""Masters, as the blocking driver reaches them."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, parse_url
from redis.retry import Retry

from .._driver import masters
from .._driver.links import Call
from .links import SocketLink, dial


class Endpoint(masters.Endpoint):
    """Where one master is; dialled by a thread."""

    kit = masters.Kit(
        redis.Redis,
        redis.Connection,
        redis.SSLConnection,
        parse_url,
        masters.quiet(AbstractConnection),
        Retry(NoBackoff(), 0),
        hint="use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.Redis object",
    )

    def dial(self, call: Call) -> SocketLink:
        """A connection with its greeting over. Blocks; raises `DialError`."""
        return dial(self.connection(call.timeout, call.connect_timeout), self.label, call)
