"""Fan-out: one command to all masters, decided by the q-th answer.

One connection for each master carries the rounds of all owners, so a release can never overtake its own
acquire on a master, and the number of sockets does not grow with the number of threads or tasks. A command
is written to every master before anything is read; stragglers are read when they come.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from ..errors import RLockError
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.steps import Ask, AskMany, ClientContext, Rest, Tell
from ..rules import commands
from ..rules.quorum import Ballot, Settle
from .connection import Connection, pack
from .connections import MasterConnection
from .endpoints import same_server
from .pending import PendingCall, PendingReply
from .pipeline import Pipeline
from .waits import Waits

#: How often a round goes out again because connections broke: each may find another one broken.
RESENDS = 2
#: Faults that a second delivery may mend at once.
RESENT = frozenset({FaultKind.BROKEN, FaultKind.UNJUDGED})

L = TypeVar("L", bound=Connection)


class Calls(Pipeline[L]):
    """The command connections of one client in one process."""

    def __init__(self, context: ClientContext, request_timeout: float) -> None:
        super().__init__(context, request_timeout)
        self._quorum = context.quorum
        self._time = context.time
        self._masters = len(context.masters)
        #: Who closes the client: the only one that may still ask. None: all may.
        self._refusing: object | None = None

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def _finishing(self, call: PendingCall) -> Waits[None]:
        """Wait until the round is settled or its time is over. RLockError: the client was closed."""

    def _sent(self, call: PendingCall) -> None:
        """A round is on its way. With the mutex."""

    @abstractmethod
    def _caller(self) -> object:
        """The thread or task that calls."""

    # -- rounds ------------------------------------------------------------------------------------

    def asking(self, ask: Ask) -> Waits[Ballot]:
        """Perform a round; its ballot. Takes at most the round's time-out, thrice if connections broke."""
        # What asks all is not for the quorum that connects first: a healthy master that needs a moment
        # longer would be reported as one that gives no answer, or be left out by `init`.
        connections = self._connections
        if connections.up < self._masters:
            everybody = connections.fresh and ask.settle is Settle.ALL
            yield from self._connecting(ask.timeout, all_of_them=everybody)
        call = PendingCall(ask, self._masters, self._guard.time)
        ask.rounds, ballot = (call,), call.ballot
        try:
            self._send(call)
            yield from self._finishing(call)
        except BaseException:
            call.over = True  # Ctrl-C between the two: others would wait for it to read for them
            raise
        self._judge_again(call)
        if ballot.granted < ballot.quorum:
            yield from self._resending(call)
        return ballot

    def _judge_again(self, call: PendingCall) -> None:
        """If the client learned of a longer lease: the memories have to be older for their votes."""
        if self._guard.time == call.guard_time:
            return
        with self._mutex:
            now, call.guard_time = self._clock(), self._guard.time
            grants = call.ask.command.script in commands.GRANTING
            for i, vote in list(call.ballot.votes.items()):
                call.ballot.amend(i, self._guard.screen(i, vote, now, grants=grants))

    def _resending(self, call: PendingCall) -> Waits[None]:
        """Again, before anybody is told that no quorum answers.

        After the restart of a master, or where a server has closed an idle connection: on new connections.
        Behind the handshake that finds out how old a memory is: on the same one.
        """
        for _ in range(RESENDS):
            if call.ballot.answered >= call.ballot.quorum or not call.failed_by(RESENT):
                return
            yield from self._connecting(call.ask.timeout, all_of_them=True)
            self._resend(call)
            yield from self._finishing(call)
            self._judge_again(call)

    @property
    def met(self) -> bool:
        """Whether masters were met once: before that nobody knows their time."""
        return not self._connections.fresh

    def meeting(self) -> Waits[None]:
        """Meet them."""
        yield from self._connecting(0.0)

    def _connecting(self, patience: float, *, all_of_them: bool = False) -> Waits[None]:
        if self._connections.up < self._masters:
            enough = self._masters if all_of_them else self._quorum
            yield from self._connections.connect_gen(patience, enough, self._quorum, self._check)

    def asking_many(self, many: AskMany) -> Waits[list[Ballot]]:
        """Perform rounds side by side."""
        everybody = self._connections.fresh and all(ask.settle is Settle.ALL for ask in many.asks)
        patience = max((ask.timeout for ask in many.asks), default=0.0)
        yield from self._connecting(patience, all_of_them=everybody)
        many.rounds = turns = [PendingCall(ask, self._masters, self._guard.time) for ask in many.asks]
        try:
            for call in turns:
                self._send(call)
            for call in turns:
                yield from self._finishing(call)
        except BaseException:
            for call in turns:
                call.over = True
            raise
        for call in turns:
            self._judge_again(call)
        return [call.ballot for call in turns]

    def resting(self, rest: Rest) -> Waits[None]:
        """Wait for what rounds were settled without."""
        for call in rest.asked.rounds:
            with self._mutex:
                call.ballot.await_all()
                call.over = False
                call.deadline = min(call.deadline, rest.until)
            yield from self._finishing(call)
            self._judge_again(call)

    def tell(self, tell: Tell) -> None:
        """Send and wait for nothing; the replies are read later and dropped."""
        packed = pack(tell.command.by_sha())
        with self._mutex:
            if self._connections.closed:
                return
            now = self._clock()
            pending = PendingReply(None, tell.command, now, now + tell.resend_for)
            for i in range(self._masters) if tell.targets is None else tell.targets:
                server = self._connections.servers[i]
                if server.connection is not None:
                    self._post(server, server.connection, pending, packed)
                elif tell.resend_for:
                    self._note(server, pending)

    def _send(self, call: PendingCall) -> None:
        ask, ballot = call.ask, call.ballot
        packed = ask.command.packed or pack(ask.command.by_sha())
        with self._mutex:
            connections = self._connections
            if connections.closed or self._refusing is not None:
                self._check()
            # Stamped before the first byte is sent: validity counted from any later instant would outlive
            # the lease on the masters.
            ballot.sent_at = ballot.decided_at = now = self._clock()
            call.deadline = now + ask.timeout
            pending = PendingReply(call, ask.command, now, now + ask.resend_for if ask.resend_for else 0.0)
            servers = connections.servers
            for server in servers if ask.targets is None else [servers[i] for i in ask.targets]:
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
        ask = call.ask
        packed = pack(ask.command.by_sha())
        with self._mutex:
            self._check()
            now = self._clock()
            call.deadline = now + ask.timeout
            call.over = False
            pending = PendingReply(call, ask.command, now, now + ask.resend_for if ask.resend_for else 0.0)
            for i in call.unanswered():
                server = self._connections.servers[i]
                # Not to one to which it is still on its way.
                if server.connection is not None and all(
                    other.round is not call for other in server.connection.pending
                ):
                    call.ballot.recall(i)
                    self._post(server, server.connection, pending, packed)

    def _check(self) -> None:
        if self._connections.closed or (self._refusing is not None and self._refusing != self._caller()):
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
        if connection.handshake.time_us:
            self._time.note(server.index, connection.handshake.time_us, now)
        self._meet(server, connection, now)
        for pending in self._redelivery.settle(server.index, now):
            if server.connection is connection:
                # Before anything else on this connection: a release that this master did not get.
                self._post(server, connection, pending, pack(pending.command.by_sha()))
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
            self._refusing = self._caller()

    def draining(self, *, to_the_end: bool = False) -> Waits[None]:
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
            last = Ask(commands.ping(), self._timeout, Settle.ALL, targets=owing)
            call = PendingCall(last, self._masters, self._guard.time)
            self._send(call)
            while not call.over:
                try:
                    yield from self._finishing(call)
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
