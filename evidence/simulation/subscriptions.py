"""The subscriptions of a simulated client: a thread may be kept from running behind each wait.

Messages are read only while some thread of the client is parked (or subscribes), and now and then by the one
that keeps house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlock._client import subscriptions
from rlock._client.connections import Wiring
from rlock.procedures.contender import Contender
from rlock.procedures.port import WaitGenerator, Wake

from .connections import Connection, Connections

if TYPE_CHECKING:
    from .client import Client


class Subscriptions(subscriptions.Subscriptions[Connection]):
    _connections: Connections

    def __init__(self, client: Client, wiring: Wiring) -> None:
        super().__init__(wiring, client.pass_on)
        self._client = client

    @property
    def connections(self) -> Connections:
        return self._connections

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        """Its thread may be kept from running behind it."""
        return (yield from self._client.kept_behind(super().subscribe(contender, timeout)))

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        return (yield from self._client.kept_behind(super().wait(contender, until)))

    def waiting(self, name: str) -> bool:
        """Whether one of its own waiters has a ticket."""
        found = self._by_name.get(name)
        return found is not None and next(found.drawn(), None) is not None
