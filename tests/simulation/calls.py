"""The command connections of a simulated client: those of `rlock/_client/calls.py`, in virtual time.

Replies are read only while some thread of the client waits for a round: a vote that comes after its round was
decided lies unread until the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlock._client import calls
from rlock._client.pending import PendingCall
from rlock.errors import RLockError
from rlock.model import Fault, FaultKind
from rlock.procedures.port import Request, WaitGenerator
from rlock.rules.command_templates import Command
from rlock.rules.quorum import Ballot

from .connections import Connection, Connections
from .driver import Bench, Wait

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
            client,
            self._mutex,
            self._welcome,
            self._bench,
            timeout=request_timeout,
            guarded=client.context.guard.on,
            news=client.context.news,
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
        def done() -> bool:
            return call.ballot.settled or self._connections.closed

        try:
            while not call.ballot.settled:
                if self._connections.closed:
                    raise RLockError("the client was closed")
                left = call.deadline - self._clock()
                yield Wait(min(left, self._timeout / 4), self._bench, done)
                self._read()
                if call.ballot.outstanding:
                    with self._mutex:
                        self._expire(self._clock())
                # Also when the time is over: a thread that was kept from running has answers to read.
                if left <= 0:
                    break
        finally:
            call.over = True
        self._news.tell()

    def _wake(self, call: PendingCall) -> None:
        self._bench.poke()

    def _read(self) -> None:
        with self._mutex:
            for server, connection in self._connections.readable():
                self._deliver(server, connection)
                if connection.ended and server.connection is connection:
                    self._drop(server, Fault(FaultKind.BROKEN, "the server closed the connection"))

    def _close(self) -> None:
        self._bench.poke()
