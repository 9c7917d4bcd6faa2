"""Calls: one command to all masters, decided by the q-th answer.

One connection for each master carries the rounds of all owners, so a release can never overtake its own
acquire on a master, and the number of sockets does not grow with the number of threads or tasks. A command
is written to every master before anything is read; stragglers are read when they come.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from ..errors import RLockError
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.port import ClientContext, Masters, Request, WaitGenerator
from ..rules import commands
from ..rules.command_templates import Command
from ..rules.quorum import Ballot, Settle
from .connection import Connection
from .connections import MasterConnection
from .endpoints import same_server
from .pending import PendingCall, PendingReply
from .pipeline import Pipeline
from .runtime import Runtime

#: How often a round goes out again because connections broke: each may find another one broken.
RESENDS = 2
#: Faults that a second delivery may mend at once.
RESENT = frozenset({FaultKind.BROKEN, FaultKind.UNJUDGED})

L = TypeVar("L", bound=Connection)


class Calls(Pipeline[L], Masters):
    """The command connections of one client in one process."""

    def __init__(self, context: ClientContext, request_timeout: float, runtime: Runtime) -> None:
        super().__init__(context, request_timeout)
        self.context = context
        self._runtime = runtime
        self._quorum = context.quorum
        self._time = context.time
        self._masters = len(context.masters)
        #: Who closes the client: the only one that may still request. None: all may.
        self._refusing: object | None = None

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        """Wait until the round is settled or its time is over. RLockError: the client was closed."""

    def _sent(self, call: PendingCall) -> None:
        """A round is on its way. With the mutex."""

    # -- rounds ------------------------------------------------------------------------------------

    def call(
        self,
        command: Command,
        timeout: float,
        settle: Settle = Settle.VERDICT,
        targets: Sequence[int] | None = None,
        *,
        resend_for: float = 0.0,
        late: Command | None = None,
    ) -> WaitGenerator[Ballot]:
        """See `Masters.call`."""
        connections = self._connections
        if connections.up < self._masters:
            # A first call to all masters waits for all connections: otherwise a healthy master that connects
            # a moment later would be reported as down, or be left out by `init`.
            everybody = connections.fresh and settle is Settle.ALL
            yield from self._connect(timeout, all_of_them=everybody)
        request = Request(command, timeout, settle, targets, resend_for, late)
        call = PendingCall(request, self._masters, self._guard.time)
        ballot = call.ballot
        try:
            self._send(call)
            yield from self._finish(call)
        except BaseException:
            call.over = True  # Ctrl-C between the two: others would wait for this thread to read for them
            raise
        self._judge_again(call)
        if ballot.granted < ballot.quorum:
            yield from self._resend_gen(call)
        return ballot

    def _judge_again(self, call: PendingCall) -> None:
        """If the client learned of a longer lease: the memories have to be older for their votes."""
        if self._guard.time != call.guard_time:
            with self._mutex:
                self._filter_again(call)

    def _resend_gen(self, call: PendingCall) -> WaitGenerator[None]:
        """Again, before anybody is told that no quorum answers.

        After the restart of a master, or where a server has closed an idle connection: on new connections.
        Behind the handshake that finds out how old a memory is: on the same one.
        """
        for _ in range(RESENDS):
            if call.ballot.answered >= call.ballot.quorum or not call.failed_by(RESENT):
                return
            yield from self._connect(call.request.timeout, all_of_them=True)
            self._resend(call)
            yield from self._finish(call)
            self._judge_again(call)

    @property
    def is_new(self) -> bool:
        """Whether no master was ever reached: nobody knows their time yet."""
        return self._connections.fresh

    def connect(self) -> WaitGenerator[None]:
        """Begin to connect to all masters; wait for the first ones."""
        yield from self._connect(0.0)

    def _connect(self, patience: float, *, all_of_them: bool = False) -> WaitGenerator[None]:
        if self._connections.up < self._masters:
            enough = self._masters if all_of_them else self._quorum
            yield from self._connections.connect_gen(patience, enough, self._quorum, self._check)

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        """See `Masters.call_many`."""
        everybody = self._connections.fresh and all(request.settle is Settle.ALL for request in requests)
        patience = max((request.timeout for request in requests), default=0.0)
        yield from self._connect(patience, all_of_them=everybody)
        calls = [PendingCall(request, self._masters, self._guard.time) for request in requests]
        try:
            for call in calls:
                self._send(call)
            for call in calls:
                yield from self._finish(call)
        except BaseException:
            for call in calls:
                call.over = True
            raise
        for call in calls:
            self._judge_again(call)
        return [call.ballot for call in calls]

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        """See `Masters.collect`."""
        wanted = {id(ballot) for ballot in ballots if ballot.outstanding}
        if not wanted:
            return
        with self._mutex:
            owed = {
                id(pending.call.ballot): pending.call
                for server in self._connections.servers
                for pending in (() if server.connection is None else server.connection.pending)
                if pending.call is not None and id(pending.call.ballot) in wanted
            }
            for call in owed.values():
                call.ballot.await_all()
                call.over = False
                call.deadline = min(call.deadline, until)
        for call in owed.values():
            yield from self._finish(call)
            self._judge_again(call)

    def send(
        self, command: Command, targets: Sequence[int] | None = None, *, resend_for: float = 0.0
    ) -> None:
        """See `Masters.send`."""
        packed = command.packed
        with self._mutex:
            if self._connections.closed:
                return
            now = self._clock()
            pending = PendingReply(None, command, now, now + resend_for)
            for i in range(self._masters) if targets is None else targets:
                server = self._connections.servers[i]
                if server.connection is not None:
                    self._post(server, server.connection, pending, packed)
                elif resend_for:
                    self._note(server, pending)

    def _send(self, call: PendingCall) -> None:
        request, ballot = call.request, call.ballot
        command = request.command
        packed = command.packed
        with self._mutex:
            connections = self._connections
            if connections.closed or self._refusing is not None:
                self._check()
            # Stamped before the first byte is sent: validity counted from any later instant would outlive
            # the lease on the masters.
            ballot.sent_at = ballot.decided_at = now = self._clock()
            call.deadline = now + request.timeout
            pending = PendingReply(
                call, request.command, now, now + request.resend_for if request.resend_for else 0.0
            )
            servers = connections.servers
            for server in servers if request.targets is None else [servers[i] for i in request.targets]:
                connection = server.connection
                if connection is not None:
                    self._post(server, connection, pending, packed)
                    continue
                ballot.cast(server.index, Vote(Code.FAULT, fault=server.fault))
                if pending.until:
                    self._note(server, pending)  # so it may be delivered, even before a resend
                else:
                    ballot.unsent |= {server.index}
            self._sent(call)

    def _resend(self, call: PendingCall) -> None:
        """A second delivery, to those that gave no vote; it keeps the stamp of the first."""
        request = call.request
        packed = request.command.packed
        with self._mutex:
            self._check()
            now = self._clock()
            call.deadline = now + request.timeout
            call.over = False
            pending = PendingReply(
                call, request.command, now, now + request.resend_for if request.resend_for else 0.0
            )
            for i in call.unanswered():
                server = self._connections.servers[i]
                # Not to one to which it is still on its way.
                if server.connection is not None and all(
                    other.call is not call for other in server.connection.pending
                ):
                    call.ballot.recall(i)
                    self._post(server, server.connection, pending, packed)

    def _check(self) -> None:
        if self._connections.closed or (
            self._refusing is not None and self._refusing != self._runtime.caller()
        ):
            raise RLockError("the client is closed")

    # -- connecting --------------------------------------------------------------------------------

    def _welcome(self, server: MasterConnection[L], connection: L) -> None:
        """A new link: refuse a server that we have already, and deliver what it has missed."""
        for other in self._connections.servers:
            if (
                other is not server
                and other.connection
                and connection.run_id
                and other.connection.run_id == connection.run_id
            ):
                told = same_server(server.endpoint, other.endpoint, connection.run_id)
                self._drop(server, Fault(FaultKind.DUPLICATE, told))
                return
        now = self._clock()
        if connection.memory_report.time_us:
            self._time.note(server.index, connection.memory_report.time_us, now)
        self._meet(server, connection, now)
        for pending in self._redelivery.take(server.index, now):
            if server.connection is connection:
                # Before anything else on this connection: a release that this master did not get.
                self._post(server, connection, pending, pending.command.packed)
            else:
                self._note(server, pending)  # it broke again

    @property
    def faults(self) -> list[Fault | None]:
        """Why each master has no connection; None: it has one."""
        return [
            None if server.connection is not None else server.fault for server in self._connections.servers
        ]

    # -- the end -----------------------------------------------------------------------------------

    def refuse(self) -> None:
        """From now on only the caller may start rounds; what is under way goes on."""
        with self._mutex:
            self._refusing = self._runtime.caller()

    def drain(self, *, to_the_end: bool = False) -> WaitGenerator[None]:
        """Wait until the masters have done what they were sent, at most a request time-out.

        ``to_the_end``: whatever interrupts it.

        To close a socket with unread answers resets the connection, and a server that cannot write an
        answer any more forgets what it has not read: an undo, a release.
        """
        with self._mutex:
            owing = [
                i
                for i, server in enumerate(self._connections.servers)
                if server.connection and server.connection.pending
            ]
        if owing:
            # Answers come in order: that to the last question is behind all others.
            last = Request(commands.ping(), self._timeout, Settle.ALL, targets=owing)
            call = PendingCall(last, self._masters, self._guard.time)
            self._send(call)
            while not call.over:
                try:
                    yield from self._finish(call)
                except (GeneratorExit, RLockError):
                    raise
                except BaseException:
                    if not to_the_end:
                        raise
                    # Cancelled once more, as by asyncio.run: asked once, waited for until the deadline.
                    call.over = False

    def close(self) -> None:
        """End the connections; what waits ends with an error. Twice is once."""
        with self._mutex:
            if not self._connections.closed:
                self._connections.close()
                self._close()

    def _close(self) -> None:
        """Wake who waits for a round. With the mutex."""

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._connections.abandon()
