"""The masters' addresses in the asyncio driver: a task connects to each."""

from __future__ import annotations

from typing import ClassVar

from .._client import endpoints
from .._client.handshake import ConnectOptions
from .._client.sentinel import AsyncService
from .connection import StreamConnection, connect


class Endpoint(endpoints.Endpoint):
    """One master's address, to which a task connects."""

    part: ClassVar[str] = ".asyncio"
    service_type = AsyncService

    async def connect_async(self, options: ConnectOptions) -> StreamConnection:
        """A connection after its handshake. Raises `ConnectError`."""
        options = options._replace(replicas=self.replicas)
        return await connect(self.connection(options.timeout, options.connect_timeout), self.label, options)
