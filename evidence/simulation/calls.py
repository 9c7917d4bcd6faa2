"""The calls and subscriptions of a simulated client: a thread may be kept from running behind each of them.

Replies are read only while some thread of the client waits for a round: a vote that comes after its round was
decided lies unread until the next one. Messages are read only while some thread is parked or subscribes, and
now and then by the one that keeps house.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlock._client import calls, subscriptions
from rlock._client.connection import MasterConnection, PendingReply
from rlock._client.connections import Wiring
from rlock.model import Code
from rlock.procedures.contender import Contender
from rlock.procedures.port import Request, WaitGenerator, Wake
from rlock.rules import scripts
from rlock.rules.quorum import Ballot
from rlock.rules.timing import guard_time

from .connections import Connection, Connections

if TYPE_CHECKING:
    from .client import Client


class Calls(calls.Calls[Connection]):
    """One connection to each master."""

    _connections: Connections

    def __init__(self, client: Client, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._client = client

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        """Its thread may be kept from running behind it."""
        self._client.current.asked[request.command.script.name] += 1
        return (yield from self._client.kept_behind(self._judged(request)))

    def _judged(self, request: Request) -> WaitGenerator[Ballot]:
        """No vote counts of a memory that is too young for the longest lease that its client knows of."""
        ballot, guard, command = (yield from super().call(request)), self._guard, request.command
        if command.script is scripts.ACQUIRE and ballot.granted >= ballot.quorum:
            for i, vote in ballot.votes.items():
                age = self._clock() - guard._epochs[i].whole_from
                young = guard_time(self._client.options.max_ttl) < age < guard_time(guard.max_ttl)
                if vote.code == Code.YES and young:
                    what = "won by the vote of a memory that is too young"
                    self._client.world.referee.accuse(command.words[1], self._client.label, f"m{i}", what)
        return ballot

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        yield from self._client.kept_waiting("decided")  # before what it decided on is sent
        return (yield from self._client.kept_behind(super().call_many(requests)))

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        return (yield from self._client.kept_behind(super().collect(ballots, until)))

    def _post(self, server: MasterConnection[Connection], pending: PendingReply, packed: bytes) -> bool:
        recorder = self._client.world.recorder
        if recorder is not None:
            recorder.sends(pending.call, pending.command)
        if server.connection is not None:
            server.connection.unwritten = len(server.connection.pending)
        return super()._post(server, pending, packed)

    @property
    def connections(self) -> Connections:
        return self._connections


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
