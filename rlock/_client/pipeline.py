"""Traffic: what goes over one connection, and the votes that come out of what its master answers."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..events import MasterAnswers, MasterFailed, MasterSlow, OutOfStep
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.port import ClientContext
from ..rules import commands, replies, scripts
from ..rules.command_templates import Command, encode
from ..rules.memory_epoch import Note
from .connection import Connection
from .connections import Connections, MasterConnection
from .pending import PendingCall, PendingReply, Redelivery

#: What goes on with a master is told of again after this.
AGAIN_S = 60.0

#: What a member of an enum costs to look up shows where each answer comes by.
_YES = Code.YES

L = TypeVar("L", bound=Connection)


class Pipeline(ABC, Generic[L]):
    """Commands on their way, and what is owed for them. All with the mutex held."""

    _connections: Connections[L]

    def __init__(self, context: ClientContext, request_timeout: float) -> None:
        self._clock = context.clock
        self._timeout = request_timeout
        self._guard = context.guard
        self._news = context.news
        self._mutex = threading.Lock()
        self._redelivery = Redelivery(len(context.masters))
        #: When each master gave its last answer on a connection that has ended, or an earlier instant.
        self._heard_at = [-math.inf for _ in context.masters]
        #: When to look next for links that owe a reply for too long.
        self._look_at = -math.inf

    @abstractmethod
    def _wake(self, call: PendingCall) -> None:
        """Let the one who waits for a round look."""

    def _post(self, server: MasterConnection[L], connection: L, pending: PendingReply, packed: bytes) -> None:
        try:
            connection.pending.append(pending)
            if connection.send(packed):
                self._connections.hold_back(connection)
        except OSError as error:
            self._drop(server, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
        except BaseException:
            # Ctrl-C in the middle of a command: its bytes and the list of owed replies may no longer
            # agree, and one reply read for another is a vote that nobody gave.
            self._drop(server, Fault(FaultKind.BROKEN, "interrupted"))
            raise

    def _take(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        """What has arrived: counted at once where it is what was foreseen, else for the reader."""
        if data and server.refusal is None and not connection.reader.has_data():
            pending_replies = connection.pending
            while data and pending_replies:
                tail = connection.tail
                if tail is None:
                    break  # a grant of this master may not count: each answer is read
                call, command, sent_at, _ = pending_replies[0]
                start, vote, noted = command.expected_reply
                expected = start + tail if noted else start
                if not data.startswith(expected):
                    break
                pending_replies.popleft()
                connection.heard_at = sent_at
                if call is not None and (not call.over or call.request.count_late):
                    self._vote(call, server.index, vote)
                data = data[len(expected) :]
            if not data:
                return
        if data:
            connection.reader.feed(data)
        self._deliver(server, connection)

    def _deliver(self, server: MasterConnection[L], connection: L) -> None:
        gets, pending_replies = connection.reader.gets, connection.pending
        while (reply := gets()) is not False:
            if not pending_replies:
                # Nobody asked: an error before the server hangs up, or the two are out of step.
                self._drop(server, Fault(FaultKind.BROKEN, f"an answer that nobody asked for: {reply!r:.80}"))
                return
            pending = pending_replies.popleft()
            call, command, sent_at, _ = pending
            if type(reply) is not list and replies.is_noscript(reply):
                # Not for an acquire that is decided: its release may have passed already, and the
                # late vote would stand until its lease ends.
                late = call is not None and (call.over or call.ballot.settled)
                if not (late and command.script is scripts.ACQUIRE):
                    self._post(server, connection, pending, encode(command.by_source()))
                    if server.connection is not connection:
                        return
                    continue
                # It will be asked for again, by a lock that is not decided yet.
                load = encode(("SCRIPT", "LOAD", command.script.source))
                self._post(server, connection, PendingReply(None, command, pending.sent_at, 0.0), load)
                continue
            vote = command.decode(reply)
            if vote.code == _YES and command.echo != vote.holder and command.echo is not None:
                # The last line of defence: a vote that was read for another round would be two leases.
                self._drop(server, Fault(FaultKind.BROKEN, "an answer that belongs to another command"))
                self._news.note(OutOfStep(server.endpoint.label))
                return
            if vote.fault is not None:
                if command.script is scripts.HANDSHAKE:
                    # Otherwise no handshake would follow on this connection, and no grant on it would count.
                    connection.judging = False
                self._refused(server, vote.fault)
            elif server.refusal is not None and vote.code == _YES and command.script is scripts.ACQUIRE:
                # Only that: without memory, or a disk, a master releases and renews all the same.
                server.refusal = None
                self._news.note(MasterAnswers(server.endpoint.label, news=False))
            if vote.note is not None and vote.note != connection.note:
                self._judge(server, connection, command, vote)
            if server.connection is connection:
                grants = command.script in scripts.GRANTING
                vote = self._guard.filter_vote(server.index, vote, self._clock(), grants=grants)
            else:
                vote = Vote(Code.FAULT, fault=server.fault)
            if not connection.judging:  # else it may be the first answer of a new life
                connection.heard_at = sent_at
            if call is not None and (not call.over or call.request.count_late):
                self._vote(call, server.index, vote)

    def _refused(self, server: MasterConnection[L], fault: Fault) -> None:
        """A master that answers, and has no vote all the same: no memory, no permission, a full disk."""
        now = self._clock()
        # One that refuses some locks only would be told of all the time.
        news = server.refusal != fault and (fault != server.refused or now >= server.refused_until)
        server.refusal = fault
        if news:
            server.refused, server.refused_until = fault, now + AGAIN_S
        self._news.note(MasterFailed(server.endpoint.label, fault.kind.value, fault.text, news))

    def _meet(self, server: MasterConnection[L], connection: L, now: float) -> None:
        """Take the handshake of a new connection."""
        guard, told = self._guard, connection.memory_report
        max_ttl = guard.max_ttl
        guard.judge(server.index, told, now, last_reply_at=self._heard_at[server.index])
        connection.heard_at = now
        self._expect(server, connection, told.note, max_ttl, now)
        for master, note in guard.first_use(now):
            other = self._connections.servers[master]
            if other.connection is not None:
                self._shake_hands(other, other.connection, now, "unused", note)

    def _shake_hands(
        self, server: MasterConnection[L], connection: L, now: float, memory: str, known: str = ""
    ) -> None:
        command = commands.handshake(connection.run_id, memory, known)
        self._post(server, connection, PendingReply(None, command, now, 0.0), command.packed)

    def _judge(self, server: MasterConnection[L], connection: L, command: Command, vote: Vote) -> None:
        """Look at the note that came with an answer: it may say that the master lost its memory."""
        guard, now = self._guard, self._clock()
        max_ttl = guard.max_ttl
        text = vote.note or ""
        if command.script is scripts.HANDSHAKE:
            connection.judging = False
            told = connection.memory_report._replace(note=text, time_us=vote.time_us)
            guard.judge(server.index, told, now, last_reply_at=connection.heard_at, new_connection=False)
        elif not guard.check_note(server.index, text, now):
            noted = Note.parse(text)
            if noted is not None and connection.run_id and noted.run_id not in ("", connection.run_id):
                # A proxy keeps this connection over a restart: the handshake of a new one tells the life.
                self._drop(server, Fault(FaultKind.BROKEN, "another server answers on this connection now"))
                return
            if not connection.judging:
                connection.judging = True
                self._shake_hands(server, connection, now, connection.memory_report.memory)
        self._expect(server, connection, text, max_ttl, now)

    def _expect(
        self, server: MasterConnection[L], connection: L, note: str, max_ttl: float, now: float
    ) -> None:
        """Compare answers with this note from now on, if grants count. ``max_ttl``: before it was judged."""
        guard = self._guard
        if guard.max_ttl != max_ttl:
            # Votes of memories that were old enough may count no more: each answer is read again.
            for other in self._connections.servers:
                if other.connection is not None:
                    other.connection.expect(None)
        connection.expect(note if not guard.on or guard.counts(server.index, note, now) else None)

    def _vote(self, call: PendingCall, master: int, vote: Vote) -> None:
        ballot = call.ballot
        settled = ballot.settled
        # One that came with the last that mattered is counted as well, or it would have to be undone.
        if (
            (settled or call.over)
            and not call.request.count_late
            and (call.over or ballot.granted >= ballot.quorum)
        ):
            return
        if ballot.cast(master, vote) and not settled:
            ballot.decided_at = self._clock()
            self._wake(call)
        if call.over:
            # Its owner has judged the votes and may not do it again, and this one may tell of a longer lease.
            self._filter_again(call)

    def _filter_again(self, call: PendingCall) -> None:
        """Filter the votes again, unless that was done since the client learned of the longest lease."""
        if self._guard.time != call.guard_time:
            now, call.guard_time = self._clock(), self._guard.time
            grants = call.request.command.script in scripts.GRANTING
            for i, vote in list(call.ballot.votes.items()):
                call.ballot.amend(i, self._guard.filter_vote(i, vote, now, grants=grants))

    def _expire(self, now: float) -> None:
        """Drop the links that have owed a reply for too long: a stalled master costs nothing from then on.

        Called when all that has arrived was read; one for which half of the time is over is told of.
        """
        self._look_at = now + self._timeout / 16
        for server, took in self._overdue(now):
            if took > self._timeout:
                self._drop(server, Fault(FaultKind.TIMEOUT, f"no answer within {self._timeout:g} s"))
            elif now >= server.slow_from:
                server.slow_from = now + AGAIN_S
                self._news.note(MasterSlow(server.endpoint.label, took, self._timeout))

    def _overdue(self, now: float) -> list[tuple[MasterConnection[L], float]]:
        """The links that have owed a reply for half of the time-out or more, and for how long."""
        half = self._timeout / 2
        return [
            (server, took)
            for server in self._connections.servers
            if server.connection
            and server.connection.pending
            and (took := now - server.connection.pending[0].sent_at) > half
        ]

    def _drop(self, server: MasterConnection[L], fault: Fault) -> None:
        connection = self._connections.drop(server, fault)
        if connection is None:
            return
        self._heard_at[server.index] = connection.heard_at
        for pending in connection.pending:
            self._note(server, pending)
            if pending.call is not None:
                self._vote(pending.call, server.index, Vote(Code.FAULT, fault=fault))

    def _note(self, server: MasterConnection[L], pending: PendingReply) -> None:
        """A master may not have got this: it gets it when it is back, and we see to that."""
        if pending.until:
            self._redelivery.keep(server.index, pending)
            # Nobody else may dial it: the lock would stay locked there although it was released.
            server.wanted_until = max(server.wanted_until, pending.until)
            self._connections.connect_due()
