"""The connections of a simulated client: `rlock/_client/connections.py` without sockets and threads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rlock._client import connection, connections
from rlock._client.connection import MasterConnection, PendingReply
from rlock._client.handshake import ConnectError, ConnectOptions, HandshakeResult
from rlock._client.runtime import Waiter
from rlock.model import Fault, FaultKind
from rlock.procedures.port import WaitGenerator

from .events import Bench, Parker, Wire
from .hosts import Host, Session

if TYPE_CHECKING:
    from .client import Client


class _Inbox(deque[Any]):
    """The replies that have arrived, in the place of a parser."""

    def gets(self) -> Any:
        """The next reply; False: none has arrived."""
        return self.popleft() if self else False


NOSCRIPT = RuntimeError("NOSCRIPT No matching script.")
_LOAD = b"*3\r\n$6\r\nSCRIPT\r\n"
KEEPALIVE_S = 11.0  # see `_keepalive` in rlock/_client/endpoints.py


class Connection(connection.Connection):
    """Both directions of one connection, and what has arrived and was not read."""

    def __init__(self, client: Client, host: Host, *, subscriber: bool) -> None:
        super().__init__(HandshakeResult())
        latency = client.world.latency
        self.subscriber = subscriber
        there, back = (client.message_ways if subscriber else client.ways)[host.index]
        self.client = client
        self.host = host
        self.there = Wire(client.events, client.random, latency, there)
        self.back = Wire(client.events, client.random, latency, back)
        self.session: Session
        self.inbox = self.reader = _Inbox()  # type: ignore[assignment]
        self.closed = False
        self.unwritten = 0  # where the commands of the next write begin in `pending`
        #: The connection ends before the answer when this script ("any": any of them) has done something.
        self.fuse = ""
        self._reset = False
        #: Called when something has arrived that the process could read, and when the peer has closed.
        self.serve: Callable[[], object] = lambda: None

    def shake_hands(self, options: ConnectOptions) -> Connection | ConnectError:
        self.connection_id = self.session.number
        try:
            self.memory_report = self.host.shake_hands(options)
        except ConnectError as error:
            return error
        return self

    def write(self, packed: Any) -> int:
        session = self.session
        if self.subscriber:
            self.put(lambda: session.host.subscribe(session, packed))
        else:
            written = list(self.pending)[self.unwritten :]
            self.client.world.sent.update(command.script.name for _, command, _, _ in written)
            loads, whole = packed.startswith(_LOAD), b"$4\r\nEVAL\r\n" in packed[:16]
            self.put(lambda: self._run(session, written, loads=loads, whole=whole))
        return len(packed)

    def _run(self, session: Session, written: list[PendingReply], *, loads: bool, whole: bool) -> None:
        host = session.host
        for call, command, _, _ in written:
            sha = command.script.sha
            if loads:
                session.receive(partial(host.load, session, sha))
            elif whole or sha not in host.flushed_scripts:
                session.receive(partial(host.execute, session, command, call))
            else:
                session.receive(partial(session.connection.answer, NOSCRIPT))

    def put(self, action: Callable[[], object]) -> None:
        """Something for the server. Raises OSError, as the second send to a closed peer does."""
        if self._reset:
            raise BrokenPipeError("Broken pipe")
        self._reset = self.ended
        self.there.send(partial(self.session.receive, action))

    def close(self) -> None:
        """What is on its way still arrives, and is executed; the server learns of the end behind it."""
        if not self.closed:
            self.closed = True
            self.inbox.clear()
            if hasattr(self, "session"):
                self.there.send(partial(self.session.receive, self.session.close))

    def answer(self, reply: Any) -> None:
        self.back.send(partial(self._arrive, reply))

    def end(self) -> None:
        """The server has closed."""
        self.back.send(self._end)

    def _arrive(self, reply: Any) -> None:
        # Into the kernel's buffer, whether or not the process is running.
        if not self.closed and not self.ended:
            self.inbox.append(reply)
            self.client.do(self.serve)

    def _end(self) -> None:
        if not self.closed and not self.ended:
            self.ended = True
            self.client.do(self.serve)

    def cut(self) -> None:
        """A machine in between forgets the connection: what is on its way is lost, and both ends are told."""
        self.there.is_cut = self.back.is_cut = True
        client, session = self.client, getattr(self, "session", None)
        client.events.after(0.001, self._end)
        if session is not None:
            # Behind what a server that stands still has in its buffer: that is still executed.
            client.events.after(0.001, partial(session.receive, session.close))

    def mute(self, *wires: Wire) -> None:
        """What is sent on one direction, or on both, is lost from now on."""
        for wire in wires:
            wire.is_mute = True
        self.fall_silent()

    def fall_silent(self) -> None:
        """Nobody says that it has ended; in the end TCP's own probes find out."""
        self.client.events.after(KEEPALIVE_S, self._end)


class Connections(connections.Connections[Connection]):
    """What has arrived is read only while some thread of the client waits for it: see `Bench`."""

    def __init__(self, client: Client, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.client = client
        self.bench = Bench(self.read)

    @property
    def links(self) -> list[Connection]:
        return [server.connection for server in self.servers if server.connection is not None]

    def parker(self) -> Parker:
        return Parker(self.bench)

    def read_until(
        self, waiter: Waiter, done: Callable[[], bool], until: float = math.inf
    ) -> WaitGenerator[None]:
        parker = waiter.parker = waiter.parker or self.parker()
        self._sleepers[parker] = None
        late = False
        try:
            while not (done() or late or self.closed):
                rest_s = min(until, waiter.deadline) - self._clock()
                late = rest_s <= 0
                yield from parker.park(min(rest_s, self._patience))
                self.read()
                self._traffic.drop_overdue(self._clock())
        finally:
            self._sleepers.pop(parker, None)

    def read(self) -> None:
        """Read what has arrived, and see which connections the peer has closed."""
        with self._mutex:
            for server in self.servers:
                connection = server.connection
                if connection is not None and (connection.inbox or connection.ended):
                    connection.answered = connection.answered or bool(connection.inbox)
                    self.take(server, connection, b"")
        self._traffic.after_data()

    def read_arrived(self) -> None:
        self.read()

    def _register(self, server: MasterConnection[Connection], connection: Connection) -> None:
        connection.serve = self.bench.arrived

    def _unregister(self, connection: Connection) -> None: ...

    def join(self) -> None:
        """Have a connection to every master at once, as after an earlier use."""
        for server in self.servers:
            connection, options = self.connection(server), self._connect_options(server)
            connection.session = connection.host.open(connection)
            self._connected(server, options, connection.shake_hands(options))
        self.is_new = False

    def connection(self, server: MasterConnection[Connection]) -> Connection:
        host = self.client.world.named(server.index)
        return Connection(self.client, host, subscriber=self._options.subscriber)

    def _start(self, server: MasterConnection[Connection]) -> None:
        if (early := server.probe_at - self._clock()) > 0.0:
            self.client.after(self.client.lasts(early), lambda: self._begin(server))
        else:
            self._begin(server)

    def _begin(self, server: MasterConnection[Connection]) -> None:
        _Attempt(self, server, self._connect_options(server))

    def ended(self, attempt: _Attempt, outcome: Connection | ConnectError) -> None:
        """An attempt is over; the next one is as `connections.Connections._connect_gen` has it."""
        with self._mutex:
            pause = self._connected(attempt.server, attempt.options, outcome)
        if pause is not None:
            self.client.after(self.client.lasts(pause), lambda: self._again(attempt.server))

    def _again(self, server: MasterConnection[Connection]) -> None:
        with self._mutex:
            if self._may_reconnect(server):
                self._start(server)


@dataclass
class _Attempt:
    """One attempt: connect, then the handshake, a round trip each."""

    connections: Connections
    server: MasterConnection[Connection]
    options: ConnectOptions
    steps: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        self.client, self.connection = self.connections.client, self.connections.connection(self.server)
        self.connection.serve = lambda: self.fail("Connection closed by server")
        self.within(self.options.connect_timeout)
        self.connection.there.send(self.accept)

    def within(self, seconds: float) -> None:
        """The next step has begun by then, or the attempt has failed."""
        self.steps += 1
        step = self.steps

        def look() -> None:
            if step == self.steps:
                self.fail("Timeout")

        self.client.after(self.client.lasts(seconds), look)

    def accept(self) -> None:
        connection, client = self.connection, self.client
        if connection.host.up:
            connection.session = connection.host.open(connection)
            connection.back.send(lambda: client.do(self.opened))
        else:
            connection.back.send(lambda: client.do(lambda: self.fail("connection refused")))

    def opened(self) -> None:
        if self.over:
            self.connection.close()  # given up before
        else:
            self.within(self.options.timeout)
            self.connection.put(self.shake_hands)

    def shake_hands(self) -> None:
        # Whether or not the client still waits for it.
        outcome = self.connection.shake_hands(self.options)
        self.connection.back.send(lambda: self.client.do(lambda: self.end(outcome)))

    def fail(self, why: str) -> None:
        self.end(ConnectError(Fault(FaultKind.DOWN, why)))

    def end(self, outcome: Connection | ConnectError) -> None:
        if not self.over:
            self.over = True
            if outcome is not self.connection:
                self.connection.close()
            self.connections.ended(self, outcome)
