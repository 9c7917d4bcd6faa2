"""The masters' addresses in the blocking driver: a thread connects to each."""

from __future__ import annotations

from .._client import endpoints
from .._client.handshake import ConnectOptions
from .connection import SocketConnection, connect


class Endpoint(endpoints.Endpoint):
    """One master's address, to which a thread connects."""

    def connect(self, options: ConnectOptions) -> SocketConnection:
        """A connection after its handshake. Blocks; raises `ConnectError`."""
        options = options._replace(replicas=self.replicas)
        return connect(self.connection(options.timeout, options.connect_timeout), self.label, options)
