"""Pipeline: the replies of the masters, in the order of the commands, and the votes in them.

A vote of a group counts when all replicas of the group have it: a primary whose replica was promoted cannot
collect all of them. Behind the command the client sends a WAIT, and an INFO that says whether the server has
been the primary since the handshake. Commands that come meanwhile share the next WAIT. Behind a command that
may have written nothing it publishes a message, to have something to wait for. The conditions of WAIT and
INFO: evidence/spec/Groups.tla.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

from ..events import GroupChanged, MasterAnswers, MasterFailed, OutOfStep
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.port import ClientContext
from ..rules import commands, replies, scripts
from ..rules.command_templates import Command, encode, end_of_acquire
from ..rules.restart_guard import Note
from .connection import L, MasterConnection, PendingCall, PendingReply, Traffic, Unacknowledged
from .connections import Connections, broken

REPORT_AGAIN_S = 60.0  # a state that lasts is reported again after this time
#: A group that lacks replicas is asked for its primary after this time, and so again and again.
ASK_AGAIN_S = 1.0

_YES = Code.YES


class Pipeline(Traffic[L]):
    """The methods are called with `_mutex` held."""

    _connections: Connections[L]
    #: Of `Calls`: send a command. False: the master is not connected.
    _post: Callable[[MasterConnection[L], PendingReply, bytes], bool]

    def __init__(self, context: ClientContext, request_timeout: float) -> None:
        self.context = context
        self._clock = context.clock
        self._timeout = request_timeout
        self._guard = context.guard
        self._pending_events = context.pending_events
        self._groups = context.groups
        self._mutex: Any = threading.RLock()
        #: The thread or task that closes the client: no other one may send any more.
        self._closer: object | None = None
        #: The last report of each lasting state: the state, and when to report it again.
        self._reported: dict[object, tuple[object, float]] = {}
        self.check_at = -math.inf  # when to check next for connections whose replies are overdue
        #: The longest lease of the fleet by which `Connection.expected_end` was set.
        self._max_ttl = context.guard.max_ttl

    def on_data(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        """Handle bytes that have arrived. Expected replies are counted without parsing."""
        end = connection.expected_end
        if data and end is not None and server.refusal is None and not connection.reader.has_data():
            pending_replies = connection.pending
            while data and pending_replies:
                call, command, sent_at, _ = pending_replies[0]
                start, vote, noted = command.expected_reply
                expected = start + end if noted else start
                if not data.startswith(expected):
                    break
                pending_replies.popleft()
                connection.last_reply_at = sent_at
                if call is not None:
                    self._count(call, server.index, vote)
                data = data[len(expected) :]
            if not data:
                return
        if data:
            connection.reader.feed(data)
        while server.connection is connection and (reply := connection.reader.gets()) is not False:
            if not connection.pending:
                # An error before the server closes. Or an earlier reply was taken for the wrong command.
                text = f"an answer that nobody asked for: {type(reply).__name__}"
                self._connections.drop(server, broken(text))
            elif type(reply) is not list and replies.is_noscript(reply):
                self._send_script(server, connection.pending[0])
                if server.connection is connection:
                    connection.pending.popleft()  # last: otherwise Ctrl-C could lose the command
            else:
                self._read_reply(server, connection, reply)

    def _send_script(self, server: MasterConnection[L], pending: PendingReply) -> None:
        """The master does not have the script of a command."""
        call, command = pending.call, pending.command
        over = call is not None and (call.over or call.settled or self._closer is not None)
        if command.script in scripts.LEASING and over:
            # Only load it: behind the release of this acquire its vote would stand until the lease ends.
            words = ("SCRIPT", "LOAD", command.script.source)
            # The reply is no vote, and no refusal: the user may have no permission to load scripts.
            load = Command(command.script, words, (), encode(words), decode=lambda _: Vote(Code.ABSENT))
            self._post(server, PendingReply(None, load, pending.sent_at, pending.sent_at), load.packed)
        else:
            self._post(server, pending, encode(command.by_source()))

    def _read_reply(self, server: MasterConnection[L], connection: L, reply: Any) -> None:
        pending = connection.pending[0]
        call, command, sent_at, _ = pending
        vote = command.decode(reply)
        if command.script in scripts.OF_GROUPS:
            if command.script is scripts.REPLICATION and vote.code == _YES:
                acknowledged = min(vote.hold_count, connection.unacknowledged.replicas)
                if self._is_news((server.index, "group"), (vote.holder, acknowledged), self._clock()):
                    label, replicas = server.endpoint.label, self._groups[server.index]
                    self._pending_events.add(GroupChanged(label, vote.holder, replicas, acknowledged))
            self._acknowledged(server, connection, command, vote)
            return
        if vote.code == _YES and command.echo != vote.holder and command.echo is not None:
            # Otherwise a vote for another call would be counted, and two owners would get the lock.
            self._connections.drop(server, broken("an answer that belongs to another command"))
            if self._is_news((server.index, "steps"), OutOfStep, self._clock()):
                self._pending_events.add(OutOfStep(server.endpoint.label))
            return
        if vote.fault is not None:
            if vote.fault.kind is FaultKind.BROKEN:  # each answer to come may cost as much to read
                self._connections.drop(server, vote.fault)
                return
            if command.script is scripts.HANDSHAKE:
                # Otherwise it would never be sent again, and no grant on this connection would count.
                connection.awaits_handshake = False
            if vote.fault.kind is FaultKind.REPLICA and server.index in self._groups:
                self._connections.drop(server, Fault(FaultKind.UNREPLICATED, vote.fault.text))
                return
            self._refused(server, vote.fault)
        elif (
            server.refusal is not None
            and vote.code == _YES
            and command.script is scripts.ACQUIRE
            and not self._needs_replicas(server, pending)
        ):
            # Only an acquire shows it: without memory or disk a master still releases and renews.
            self._accepted(server)
        if vote.note is not None and end_of_acquire(vote.note) != connection.expected_end:
            self._check_note(server, connection, command, vote)
            if server.connection is not connection:
                return
        # Popped only now: a dropped connection redelivers the commands that are still in `pending`.
        connection.pending.popleft()
        grants = command.script in scripts.GRANTING
        vote = self._guard.filter_vote(server.index, vote, self._clock(), grants=grants)
        if vote.time_us:
            self.context.time.saw(server.index, vote.time_us, sent_at)
        if not connection.awaits_handshake:  # otherwise this may be the first reply after a restart
            connection.last_reply_at = sent_at
        if call is not None:
            # A status that names a holder calls no lock free. A refused acquire has to wait: without its
            # replicas a group grants nothing, and the vote of another contender is no holder.
            named = command.script is scripts.STATUS and vote.holder != ""
            if not named and self._needs_replicas(server, pending):
                connection.unacknowledged.votes.append((pending, vote))
            else:
                self._count(call, server.index, vote)

    def _accepted(self, server: MasterConnection[L]) -> None:
        server.refusal = None
        self._pending_events.add(MasterAnswers(server.endpoint.label, news=False))

    def _refused(self, server: MasterConnection[L], fault: Fault) -> None:
        """A master replies, but has no vote: no memory, no permission, a full disk."""
        # A master that refuses only some locks alternates, and would be reported all the time.
        news = server.refusal != fault and self._is_news((server.index, "refusal"), fault, self._clock())
        server.refusal = fault
        if news:
            server.faults_at.append(self._clock())
        failed = MasterFailed(server.endpoint.label, fault.kind.value, fault.text, news)
        self._connections.report(server, failed)

    def _is_news(self, key: object, state: object, now: float) -> bool:
        """Whether to report a lasting state: it has changed, or the last report was long ago."""
        last, until = self._reported.get(key, (None, now))
        if state == last and now < until:
            return False
        self._reported[key] = state, now + REPORT_AGAIN_S
        return True

    def _count(self, call: PendingCall, master: int, vote: Vote) -> None:
        settled = call.settled
        # A lost round counts replies after its verdict, too: otherwise a late grant would not be undone.
        decided = call.over or (settled and call.granted >= call.quorum)
        if decided and not call.request.count_late:
            return
        if call.cast(master, vote) and not settled:
            call.decided_at = self._clock()
            if call.parker is not None:
                self._connections.wake(call)
        if call.over:
            # Its owner has judged the votes already, and this one may tell of a longer lease.
            self._filter_again(call)

    def _filter_again(self, call: PendingCall) -> None:
        """Filter the votes again, unless that was done since the client learned of the longest lease.

        Otherwise a master that restarted while such a lease was valid could vote a second time.
        """
        if self._guard.max_ttl != call.max_ttl:
            now, call.max_ttl = self._clock(), self._guard.max_ttl
            grants = call.request.command.script in scripts.GRANTING
            for i, vote in list(call.votes.items()):
                call.amend(i, self._guard.filter_vote(i, vote, now, grants=grants))

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
                followers.append(commands.mark(self.context.wire.client_channel(name, "")))
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
            if fault is not None and pending.command.script not in scripts.LEASING:
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

    def _redeliver(self, server: MasterConnection[L], pending: PendingReply) -> None:
        """Send a command again when its master is connected again, if it still means something then."""
        if pending.resend_until > pending.sent_at:
            server.missed.append(pending._replace(call=None))
            # Otherwise an unused client makes no attempt, and a released lock stays locked there.
            server.reconnect_until = max(server.reconnect_until, pending.resend_until)
            self._connections.connect_due()

    def _check_note(self, server: MasterConnection[L], connection: L, command: Command, vote: Vote) -> None:
        """The note in a reply is not the one that counts: the master may have lost its memory."""
        guard, now, note = self._guard, self._clock(), vote.note or ""
        report = connection.memory_report
        if command.script is scripts.HANDSHAKE:
            connection.awaits_handshake = False
            report = report._replace(note=note, time_us=vote.time_us)
            last_reply_at = connection.last_reply_at
            guard.judge(server.index, report, now, last_reply_at=last_reply_at, new_connection=False)
        elif not guard.check_note(server.index, note, now):
            parsed = Note.parse(note)
            if parsed is not None and report.run_id and parsed.run_id not in ("", report.run_id):
                # A proxy hid a restart. Only the handshake of a new connection learns the run_id.
                self._connections.drop(server, broken("another server answers on this connection now"))
                return
            if not connection.awaits_handshake:
                connection.awaits_handshake = True
                # A CONFIG SET since the connection began may have ended what its handshake found.
                self._send_handshake(server, now, "unknown")
        self._count_grants(server, connection, note, now)

    def _send_handshake(self, server: MasterConnection[L], now: float, memory: str, known: str = "") -> None:
        if server.connection is not None:
            run_id = server.connection.memory_report.run_id
            command = commands.handshake(run_id, memory, known)
            self._post(server, PendingReply(None, command, now, now), command.packed)

    def _count_grants(self, server: MasterConnection[L], connection: L, note: str, now: float) -> None:
        """Count grants with this note from now on, if its memory is old enough."""
        guard = self._guard
        if guard.max_ttl != self._max_ttl:
            self._max_ttl = guard.max_ttl
            # Their memories may be too young for the longer lease.
            for other in self._connections.servers:
                if other.connection is not None:
                    other.connection.expected_end = None
        # The replies of a group are parsed: their votes wait for the replicas.
        counts = server.index not in self._groups and (not guard.on or guard.counts(server.index, note, now))
        connection.expected_end = end_of_acquire(note) if counts else None
