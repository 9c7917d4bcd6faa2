"""The command connections of a simulated client: those of `rlock/_client/calls.py`, in virtual time.

Replies are read only while some thread of the client waits for a round: a vote that comes after its round was
decided lies unread until the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlock._client import calls
from rlock._client.pipeline import PendingCall
from rlock.errors import RLockError
from rlock.model import Fault, FaultKind
from rlock.procedures.port import Request, WaitGenerator
from rlock.rules.command_templates import Command
from rlock.rules.quorum import Ballot

from .connections import Connection, Connections
from .driver import Bench, Parker

if TYPE_CHECKING:
    from .client import Client


class Calls(calls.Calls[Connection]):
    """One connection to each master."""

    _connections: Connections

    def __init__(self, client: Client, request_timeout: float) -> None:
        super().__init__(client.context, request_timeout, client.runtime)
        self._client = client
        self._bench = Bench(self._read)
        self._connections = Connections(
            client, self._mutex, self._on_connect, self._bench, timeout=request_timeout
        )

    def call(self, command: Command, *args: Any, **options: Any) -> WaitGenerator[Ballot]:
        """Its thread may be kept from running behind it."""
        self._client.current.asked[command.script.name] += 1
        return (yield from self._client.kept_behind(super().call(command, *args, **options)))

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        return (yield from self._client.kept_behind(super().call_many(requests)))

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        return (yield from self._client.kept_behind(super().collect(ballots, until)))

    @property
    def connections(self) -> Connections:
        return self._connections

    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        parker = call.parker = Parker(self._bench)
        self._waiting.add(call)
        try:
            while not call.ballot.settled:
                if self._connections.closed:
                    raise RLockError("the client was closed")
                left = call.deadline - self._clock()
                yield from parker.park(min(left, self._patience))
                self._read()
                if call.ballot.outstanding:
                    with self._mutex:
                        self._drop_stalled(self._clock())
                # Only now: a thread that was kept from running has to read its replies before it gives up.
                if left <= 0:
                    break
        finally:
            call.over = True
            self._waiting.discard(call)
        self._pending_events.emit()

    def _read(self) -> None:
        with self._mutex:
            for server, connection in self._connections.readable():
                self._read_replies(server, connection)
                if connection.ended and server.connection is connection:
                    self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))
