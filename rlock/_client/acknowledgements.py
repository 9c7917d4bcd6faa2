"""Acknowledgements: a vote of a group counts when all replicas of the group have it.

A primary whose replica was promoted cannot collect all of them, so its votes count for nothing. Behind the
command the client sends a WAIT, and an INFO that says whether the server has been the primary since the
handshake. Commands that come meanwhile share the next WAIT. `spec/Groups.tla` has each of these conditions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from ..clock import Clock
from ..model import Code, Fault, FaultKind, Vote
from ..rules import commands, scripts
from ..rules.command_templates import Command
from .connection import Connection, MasterConnection, Unacknowledged
from .connections import Connections, broken
from .pending import PendingCall, PendingReply

#: A group that lacks replicas is asked for its primary after this time, and so again and again.
ASK_AGAIN_S = 1.0

L = TypeVar("L", bound=Connection)


class Acknowledgements(ABC, Generic[L]):
    """Called with the mutex."""

    _connections: Connections[L]
    _clock: Clock
    _timeout: float
    #: The masters that are groups, with the number of their replicas.
    _groups: Mapping[int, int]

    @abstractmethod
    def _post(self, server: MasterConnection[L], pending: PendingReply, packed: bytes) -> bool:
        """Write a command to a master. False: it is not connected."""

    @abstractmethod
    def _count(self, call: PendingCall, master: int, vote: Vote) -> None:
        """Count a vote."""

    @abstractmethod
    def _redeliver(self, server: MasterConnection[L], pending: PendingReply) -> None:
        """Send a command again when its master is connected again, if it still means something then."""

    @abstractmethod
    def _refused(self, server: MasterConnection[L], fault: Fault) -> None:
        """A master replies, but has no vote."""

    @abstractmethod
    def _accepted(self, server: MasterConnection[L]) -> None:
        """A master that replied without a vote has one again."""

    def _needs_replicas(self, server: MasterConnection[L], pending: PendingReply) -> bool:
        """Whether the vote on a command counts only when all replicas have it."""
        if not self._groups.get(server.index) or pending.call is None:
            return False
        return pending.command.script in scripts.ACKNOWLEDGED or pending.command.acknowledged

    def _follow_up(self, server: MasterConnection[L], connection: L, pending: PendingReply) -> bytes:
        """The WAIT and the INFO behind a command, in one write with it.

        Empty if a WAIT is due: the next one then stands for all commands behind that.
        """
        held, packed = connection.unacknowledged, b""
        if self._needs_replicas(server, pending):
            if held.behind is not None:
                held.behind += 1
                return b""
            wait = self._wait(server, connection)
            connection.pending.append(wait)
            packed = wait.command.packed
        elif pending.command.script is not scripts.ACKNOWLEDGE:
            return b""
        command = commands.replication()
        connection.pending.append(pending._replace(call=None, command=command, resend_until=pending.sent_at))
        return packed + command.packed

    def _wait(self, server: MasterConnection[L], connection: L) -> PendingReply:
        connection.unacknowledged.behind = 0
        now, command = self._clock(), commands.acknowledge(self._groups[server.index], self._timeout / 2)
        return PendingReply(None, command, now, now)

    def _acknowledged(self, server: MasterConnection[L], connection: L, command: Command, vote: Vote) -> None:
        """Count the votes that all replicas have; without all of them, ask for the primary again."""
        if vote.fault is None and command.script is scripts.ACKNOWLEDGE:
            connection.pending.popleft()
            connection.unacknowledged.replicas = vote.hold_count
            return
        fault = vote.fault or self._short(server, connection, vote)
        if fault is not None:
            self._refused(server, fault)
            old = self._clock() > connection.began_at + ASK_AGAIN_S
            if old or fault.kind is not FaultKind.UNREPLICATED:
                self._connections.drop(server, fault)  # another server may be the primary now
                return
        elif server.refusal is not None:
            self._accepted(server)
        connection.pending.popleft()
        held, connection.unacknowledged = connection.unacknowledged, Unacknowledged()
        for pending, counted in held.votes:
            if fault is not None:
                self._redeliver(server, pending)
            if pending.call is not None:
                decided = counted if fault is None else Vote(Code.FAULT, fault=fault)
                self._count(pending.call, server.index, decided)
        if held.behind:
            wait = self._wait(server, connection)
            self._post(server, wait, wait.command.packed)

    def _short(self, server: MasterConnection[L], connection: L, vote: Vote) -> Fault | None:
        """Why the votes do not count; None: they do. ``vote``: of `commands.replication`."""
        if vote.holder != connection.memory_report.replication_id:
            # It was a replica since the handshake, and may have copied an older memory.
            return broken("its replication began anew")
        replicas, online = self._groups[server.index], vote.hold_count
        acknowledged = min(online, connection.unacknowledged.replicas)
        if online > replicas:
            text = f"{online} replicas are connected, and replicas={replicas} is set"
        elif acknowledged < replicas:
            text = f"{acknowledged} of {replicas} replicas acknowledged: it has no vote without all of them"
        else:
            return None
        return Fault(FaultKind.UNREPLICATED, text)
