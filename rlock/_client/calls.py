"""Calls: one command to all masters, decided by the q-th reply.

A client has one command connection to each master, for all its threads or tasks. So a release can never
overtake its own acquire on a master. A command is written to every master before any reply is read; the
replies after the q-th are read when they come.
"""

import math
from collections.abc import Sequence
from functools import partial

from ..errors import NOT_HERE, RLockError
from ..events import MasterSlow
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.port import Masters, Request, Targets, WaitGenerator
from ..rules import commands, scripts
from ..rules.command_templates import Command
from ..rules.quorum import Ballot, Settle
from .connection import L, MasterConnection, PendingCall, PendingReply, would_block
from .connections import Wiring
from .endpoints import ONE_SERVER
from .pipeline import Pipeline

RESENDS = 2  # how often a call is sent again after connections broke: the new connection may break as well
#: Faults after which a call is sent again at once.
RESENT = frozenset({FaultKind.BROKEN, FaultKind.UNJUDGED})


class Calls(Pipeline[L], Masters):
    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring.context, wiring.timeout)
        self._runtime = wiring.runtime
        self._masters = len(wiring.endpoints)
        self._connections = wiring.connections(wiring, self._mutex, self)

    def _finish(self, call: PendingCall) -> WaitGenerator[None]:
        """Wait until the ballot is settled or the time is over. Raises `RLockError` after `close`."""
        try:
            yield from self._connections.read_until(call, lambda: call.settled, math.inf)
        finally:
            call.over = True
        if self._connections.closed and not call.settled:
            raise RLockError("the client was closed")
        if self._pending_events:
            self._pending_events.emit()

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        if self._connections.up < self._masters:
            # The first call to all masters waits for all: otherwise `init` could leave a healthy one out.
            to_all = self._connections.is_new and request.settle is Settle.ALL
            yield from self.connect(request.timeout, to_all=to_all)
        call = PendingCall(request, self._masters, self._guard.max_ttl)
        try:
            self._send(call)
            yield from self._finish(call)
            self._judge_again(call)
            if call.granted < call.quorum:
                yield from self._resend_gen(call)
        finally:
            # Ctrl-C may come before `_finish`. Then a late NOSCRIPT must not send the acquire once more.
            call.over = True
        return call

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        to_all = self._connections.is_new and all(request.settle is Settle.ALL for request in requests)
        yield from self.connect(max((request.timeout for request in requests), default=0.0), to_all=to_all)
        calls = [PendingCall(request, self._masters, self._guard.max_ttl) for request in requests]
        try:
            for call in calls:
                self._send(call)
            for call in calls:
                yield from self._finish(call)
        finally:
            for call in calls:
                call.over = True  # see `call`
        for call in calls:
            self._judge_again(call)
        return [*calls]

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        wanted = {ballot for ballot in ballots if ballot.outstanding}
        if not wanted:
            return
        calls: dict[PendingCall, None] = {}
        try:
            with self._mutex:
                for server in self._connections.servers:
                    for pending in () if server.connection is None else server.connection.undecided:
                        if pending.call is not None and pending.call in wanted:
                            calls[pending.call] = None
                for call in calls:
                    call.settle, call.settled = Settle.ALL, not call.outstanding
                    call.over = False
                    call.deadline = min(call.deadline, until)
            for call in calls:
                yield from self._finish(call)
                self._judge_again(call)
        finally:
            for call in calls:
                call.over = True  # see `call`

    def start(self, request: Request) -> Ballot:
        call = PendingCall(request, self._masters, self._guard.max_ttl)
        call.over = True  # first: see `call`
        with self._mutex:
            self._connections.write_gathered()
        self._send(call)
        return call

    def read_arrived(self) -> None:
        self._connections.read_arrived()

    def send(self, command: Command, targets: Targets = None, *, resend_for: float = 0.0) -> None:
        if self._mutex._is_owned():  # see `Engine.interrupted`: it would overtake a command that is half sent
            self._runtime.later(partial(self.send, command, targets, resend_for=resend_for))
            return
        packed = command.packed
        with self._mutex:
            # While it closes: a place that is put back behind its undo would stay there.
            if not self._connections.closed and (self._closer is None or command.script is not scripts.WAIT):
                now = self._clock()
                self._connections.write_gathered()  # its caller would not notice that it was never written
                pending = PendingReply(None, command, now, now + resend_for)
                for server in self._targets(targets):
                    self._post(server, pending, packed)

    def _send(self, call: PendingCall) -> None:
        request = call.request
        packed = request.command.packed
        if self._mutex._is_owned():
            raise RLockError(NOT_HERE)
        with self._mutex:
            if self._connections.closed or self._closer is not None:
                self._check()
            # Before the first byte is sent: validity from a later instant would outlive the masters' lease.
            call.sent_at = call.decided_at = now = self._clock()
            call.deadline = now + request.timeout
            if self._connections.gathering:
                self._connections.write_gathered(now)
            pending = PendingReply(call, request.command, now, now + request.resend_for)
            wanted = request.wanted is None or request.wanted()
            for server in self._targets(request.targets):
                if not (wanted and self._post(server, pending, packed)):
                    call.cast(server.index, Vote(Code.FAULT, fault=server.fault))
                    if not request.resend_for:
                        call.unsent |= {server.index}

    def _post(self, server: MasterConnection[L], pending: PendingReply, packed: bytes) -> bool:
        connection = server.connection
        if connection is None:
            self._redeliver(server, pending)
            return False
        try:
            connection.pending.append(pending)
            if self._groups:
                packed += self._follow_up(server, connection, pending)
            try:
                # Otherwise a release could overtake its acquire, which is still in the backlog.
                taken = 0 if connection.backlog or self._connections.gathering else connection.write(packed)
            except OSError as error:
                if not would_block(error):
                    raise
                taken = 0
            if taken < len(packed):
                connection.backlog += packed[taken:]
                if not self._connections.gathering:
                    self._connections.hold_back(connection)
        except BaseException as error:
            self._connections.fail(server, error)
        return True

    def _targets(self, targets: Targets) -> Sequence[MasterConnection[L]]:
        servers = self._connections.servers
        return servers if targets is None else [servers[i] for i in targets]

    def _resend_gen(self, call: PendingCall) -> WaitGenerator[None]:
        """Send a call again before it fails for want of a quorum, on new connections or after a handshake.

        Only to the masters that gave no vote. Validity still counts from the first time.
        """
        request = call.request
        for _ in range(RESENDS):
            faults = [vote.fault for vote in call.votes.values() if vote.fault is not None]
            if call.answered >= call.quorum or not any(each.kind in RESENT for each in faults):
                return
            yield from self.connect(request.timeout, to_all=True)
            with self._mutex:
                self._check()
                if request.wanted is not None and not request.wanted():
                    return
                now = self._clock()
                call.deadline = now + request.timeout
                call.over = False
                pending = PendingReply(call, request.command, now, now + request.resend_for)
                for server in self._targets(call.unanswered()):
                    due = None if server.connection is None else server.connection.undecided
                    # A master that still owes the first reply would run the command twice.
                    if due is not None and all(other.call is not call for other in due):
                        call.recall(server.index)
                        self._post(server, pending, request.command.packed)
            yield from self._finish(call)
            self._judge_again(call)

    def _judge_again(self, call: PendingCall) -> None:
        """Filter the votes again if a longer lease became known: see `_filter_again`."""
        if self._guard.max_ttl != call.max_ttl:
            with self._mutex:
                self._filter_again(call)

    def _check(self) -> None:
        closer = self._closer
        if self._connections.closed or (closer is not None and closer != self._runtime.caller()):
            raise RLockError("the client is closed")

    def connect(self, patience: float = 0.0, *, to_all: bool = False) -> WaitGenerator[None]:
        """Begin to connect to all masters, and wait for a quorum, or ``to_all``."""
        if self._mutex._is_owned():
            raise RLockError(NOT_HERE)  # the attempts to connect need the mutex that it has
        enough = self._masters if to_all else self.context.quorum
        yield from self._connections.connect_gen(patience, enough, self._check)

    def on_connect(self, server: MasterConnection[L], connection: L) -> None:
        """A new connection: refuse a server under a second name, and send the commands that it missed."""
        now, report = self._clock(), connection.memory_report
        for other in self._connections.servers:
            known = None if other is server else other.connection
            if known is not None and report.server and known.memory_report.server == report.server:
                names = f"{server.endpoint.label} and {other.endpoint.label}"
                text = f"{names} are the same server (run_id {report.server}): {ONE_SERVER}"
                self._connections.drop(server, Fault(FaultKind.DUPLICATE, text))
                return
        if server.index in self._groups:
            self.context.primaries[server.index] = report.run_id
        self.context.time.saw(server.index, report.time_us, connection.began_at)
        if report.time_us and now - connection.began_at < self._guard.own:  # a longer one tells an old time
            self.context.time.note(server.index, report.time_us, now)
        self._guard.judge(server.index, report, now, last_reply_at=server.last_reply_at)
        connection.last_reply_at = now
        self._count_grants(server, connection, report.note, now)
        for master, note in self._guard.first_use(now):
            self._send_handshake(self._connections.servers[master], now, "unused", note)
        # Before any other command: a new acquire must not meet a lock whose release got lost.
        missed = [pending for pending in server.missed if pending.resend_until > now]
        server.missed.clear()
        for pending in missed:
            self._post(server, pending._replace(sent_at=now), pending.command.packed)
        # The rounds under way that this master was not sent: one of the others may be stalled.
        others = [other.connection for other in self._connections.servers if other.connection is not None]
        calls = {each.call: None for other in others for each in other.pending if each.call is not None}
        for call in calls if self._closer is None else ():
            if server.index not in call.unsent or call.settled or call.over:
                continue
            call.recall(server.index)  # first: whoever gives up from now on undoes it here, too
            pending = PendingReply(call, call.request.command, now, now)
            if not call.over and not self._post(server, pending, call.request.command.packed):
                self._count(call, server.index, Vote(Code.FAULT, fault=server.fault))

    def drop_overdue(self, now: float) -> None:
        """Drop connections whose replies were overdue: a stalled master then costs nothing any more."""
        with self._mutex:
            self.check_at = now + self._timeout / 16
            self._connections.tell_steady(now)
            for server in self._connections.servers:
                if server.connection is None or not server.connection.pending:
                    continue
                call, _, sent_at, _ = server.connection.pending[0]
                # A lock with a lease of its own may wait for longer.
                timeout = max(self._timeout, 0.0 if call is None else call.request.timeout)
                if (took := now - sent_at) > timeout:
                    fault = Fault(FaultKind.TIMEOUT, f"no answer within {timeout:g} s")
                    self._connections.drop(server, fault)
                    self.context.timed_out[server.index] = now
                elif took > timeout / 2 and self._is_news((server.index, "slow"), True, now):
                    self._pending_events.add(MasterSlow(server.endpoint.label, took, timeout))

    def on_drop(self, server: MasterConnection[L], connection: L, fault: Fault) -> None:
        for pending in connection.undecided:
            self._redeliver(server, pending)
            if pending.call is not None:
                self._count(pending.call, server.index, Vote(Code.FAULT, fault=fault))

    def refuse(self) -> None:
        """From now on only the caller may send; calls that are under way go on."""
        with self._mutex:
            self._closer = self._runtime.caller()

    def drain(self, *, to_the_end: bool = False) -> WaitGenerator[None]:
        """Wait until the masters have run their commands, at most a request time-out.

        Otherwise they could lose a release: a socket that is closed with unread replies resets, and a server
        that cannot write a reply forgets the commands behind it. ``to_the_end``: also when cancelled.
        """
        with self._mutex:
            servers = self._connections.servers
            busy = [each.index for each in servers if each.connection is not None and each.connection.pending]
        if not busy:
            return
        # Replies come in order: the reply to this command comes behind all others.
        request = Request(commands.ping(), self._timeout, Settle.ALL, busy)
        call = PendingCall(request, self._masters, self._guard.max_ttl)
        self._send(call)
        while not call.over:
            try:
                yield from self._finish(call)
            except (GeneratorExit, RLockError):
                raise
            except BaseException:
                if not to_the_end:
                    raise
                call.over = False  # cancelled again, as by asyncio.run: wait on, until the same deadline

    def close(self) -> None:
        """Close the connections; calls under way end with an error. A second call does nothing."""
        with self._mutex:
            self._connections.close()
