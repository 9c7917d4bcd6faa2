"""Acknowledgements: a vote of a group counts when all replicas of the group have it.

A primary whose replica was promoted cannot collect all of them, so its votes count for nothing. Behind the
command the client sends a WAIT, and an INFO that says whether the server has been the primary since the
handshake. Commands that come meanwhile share the next WAIT. Behind a command that may have written nothing it
publishes a message, to have something to wait for. The conditions of WAIT and INFO: evidence/spec/Groups.tla.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ..clock import Clock
from ..model import Code, Fault, FaultKind, Vote
from ..rules import commands, scripts
from ..rules.command_templates import Command
from ..rules.keys import Wire
from ..rules.restart_guard import Guard
from .connection import Connection, MasterConnection, Unacknowledged
from .connections import Connections, broken
from .pending import PendingCall, PendingReply

#: A group that lacks replicas is asked for its primary after this time, and so again and again.
ASK_AGAIN_S = 1.0

L = TypeVar("L", bound=Connection)


class Acknowledgements(Generic[L]):
    """Called with the mutex."""

    _connections: Connections[L]
    _clock: Clock
    _timeout: float
    _guard: Guard
    _wire: Wire
    #: The masters that are groups, with the number of their replicas.
    _groups: Mapping[int, int]

    #: Of `Pipeline` and `Calls`, which say what they do.
    _post: Callable[[MasterConnection[L], PendingReply, bytes], bool]
    _count: Callable[[PendingCall, int, Vote], None]
    _redeliver: Callable[[MasterConnection[L], PendingReply], None]
    _refused: Callable[[MasterConnection[L], Fault], None]
    _accepted: Callable[[MasterConnection[L]], None]

    def _needs_replicas(self, server: MasterConnection[L], pending: PendingReply) -> bool:
        """Whether the vote on a command counts only when all replicas have it."""
        if not self._groups.get(server.index) or pending.call is None:
            return False
        command = pending.command
        return command.script in scripts.ACKNOWLEDGED or command.acknowledged or command.unwritten != ""

    def _follow_up(self, server: MasterConnection[L], connection: L, pending: PendingReply) -> bytes:
        """What follows a command, in one write with it. While a WAIT is due, the next one stands for all."""
        held = connection.unacknowledged
        followers: list[Command] = []
        if self._needs_replicas(server, pending):
            if name := pending.command.unwritten:
                followers.append(commands.mark(self._wire.client_channel(name, "")))
            if held.behind is None:
                followers += (self._wait(server, connection), commands.replication())
            else:
                held.behind += 1
        elif pending.command.script is scripts.ACKNOWLEDGE:
            followers.append(commands.replication())
        follower = pending._replace(call=None, resend_until=pending.sent_at)
        connection.pending.extend(follower._replace(command=command) for command in followers)
        return b"".join([command.packed for command in followers])

    def _wait(self, server: MasterConnection[L], connection: L) -> Command:
        connection.unacknowledged.behind = 0
        return commands.acknowledge(self._groups[server.index], self._timeout / 2)

    def _acknowledged(self, server: MasterConnection[L], connection: L, command: Command, vote: Vote) -> None:
        """Count the votes that all replicas have; without all of them, ask for the primary again."""
        if vote.fault is None and command.script is not scripts.REPLICATION:
            connection.pending.popleft()
            connection.unacknowledged.replicas = vote.hold_count  # that of WAIT comes last
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
                # Again: the client may have learned of a longer lease since it read the reply.
                grants = pending.command.script in scripts.GRANTING
                vote = self._guard.filter_vote(server.index, counted, self._clock(), grants=grants)
                decided = vote if fault is None else Vote(Code.FAULT, fault=fault)
                self._count(pending.call, server.index, decided)
        if held.behind:
            wait, now = self._wait(server, connection), self._clock()
            self._post(server, PendingReply(None, wait, now, now), wait.packed)

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
