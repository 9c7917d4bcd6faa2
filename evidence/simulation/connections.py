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

from .driver import Bench, Parker
from .events import Latency, Way, Wire
from .hosts import Host, Session

if TYPE_CHECKING:
    from .client import Client


class _Inbox:
    """In the place of the parser: the replies that have arrived."""

    def __init__(self, inbox: deque[Any]) -> None:
        self._inbox = inbox

    def gets(self) -> Any:
        """The next reply; False: none has arrived."""
        return self._inbox.popleft() if self._inbox else False


NOSCRIPT = RuntimeError("NOSCRIPT No matching script.")
_LOAD = b"*3\r\n$6\r\nSCRIPT\r\n"
#: See `_keepalive` in rlock/_client/endpoints.py.
KEEPALIVE_S = 11.0


class Connection(connection.Connection):
    """Both directions of one connection, and what has arrived and was not read."""

    def __init__(self, client: Client, host: Host, latency: Latency, *, subscriber: bool) -> None:
        super().__init__(HandshakeResult())
        self.subscriber = subscriber
        there, back = (client.message_ways if subscriber else client.ways)[host.index]
        self.client = client
        self.host = host
        self.there = Wire(client.events, client.random, latency, there)
        self.back = Wire(client.events, client.random, latency, back)
        self.session: Session
        self.inbox: deque[Any] = deque()
        self.reader = _Inbox(self.inbox)  # type: ignore[assignment]
        self.closed = False
        #: Where the commands of the next write begin in `pending`.
        self.unwritten = 0
        #: The connection ends before the answer when this script ("any": any of them) has done something.
        self.fuse = ""
        self._reset = False
        #: Called when something has arrived that the process could read.
        self.serve: Callable[[], object] = lambda: None
        #: The same when the peer has closed.
        self.disconnect: Callable[[], object] = lambda: None

    def shake_hands(self, options: ConnectOptions) -> None:
        """What a handshake finds. Raises `ConnectError`."""
        self.connection_id = self.session.number
        self.memory_report = self.host.shake_hands(options)

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
                host.receive(session, partial(host.load, session, sha))
            elif whole or sha not in host.flushed_scripts:
                host.receive(session, partial(host.execute, session, command, call))
            else:
                host.receive(session, partial(session.connection.answer, NOSCRIPT))

    def put(self, action: Callable[[], object]) -> None:
        """Something for the server. Raises OSError, as the second send to a closed peer does."""
        if self._reset:
            raise BrokenPipeError("Broken pipe")
        self._reset = self.ended
        session = self.session
        self.there.send(lambda: session.host.receive(session, action))

    def close(self) -> None:
        """What is on its way still arrives, and is executed; the server learns of the end behind it."""
        if not self.closed:
            self.closed = True
            self.inbox.clear()
            if hasattr(self, "session"):
                session = self.session
                self.there.send(lambda: session.host.receive(session, session.close))

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
            self.client.do(self.disconnect)

    def cut(self) -> None:
        """A machine in between forgets the connection: what is on its way is lost, and both ends are told."""
        self.there.cut()
        self.back.cut()
        client, session = self.client, getattr(self, "session", None)
        client.events.at(client.events.now + 0.001, self._end)
        if session is not None:
            # Behind what a server that stands still has in its buffer: that is still executed.
            behind = partial(session.host.receive, session, session.close)
            client.events.at(client.events.now + 0.001, behind)

    def mute(self, *wires: Wire) -> None:
        """What is sent on one direction, or on both, is lost from now on."""
        for wire in wires:
            wire.mute()
        self.fall_silent()

    def fall_silent(self) -> None:
        """Nobody says that it has ended; in the end TCP's own probes find out."""
        self.client.events.at(self.client.events.now + KEEPALIVE_S, self._end)


@dataclass
class Endpoint:
    """The name of a master, and the number of replicas of a group."""

    label: str
    replicas: int | None
    tls = False


class Connections(connections.Connections[Connection]):
    """What has arrived is read only while some thread of the client waits for it: see `Bench`."""

    def __init__(self, client: Client, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.client = client
        self.bench = Bench(self.read)
        network = client.world.network
        self._latency = network.messages if self._options.subscriber else network.commands

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
                left = min(until, waiter.deadline) - self._clock()
                late = left <= 0
                yield from parker.park(min(left, self._patience))
                self.read()
                self._traffic.look(self._clock())
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
        connection.serve = connection.disconnect = self.bench.arrived

    def _unregister(self, connection: Connection) -> None: ...

    def join(self) -> None:
        """Have a connection to every master at once, as after an earlier use."""
        for server in self.servers:
            connection, options = self.connection(server), self._connect_options(server)
            outcome: Connection | ConnectError = connection
            connection.session = connection.host.open(connection)
            try:
                connection.shake_hands(options)
            except ConnectError as error:
                outcome = error
            self._connected(server, options, outcome)
        self.is_new = False

    def connection(self, server: MasterConnection[Connection]) -> Connection:
        host = self.client.world.named(server.index)
        return Connection(self.client, host, self._latency, subscriber=self._options.subscriber)

    def _start(self, server: MasterConnection[Connection]) -> None:
        _Attempt(self, server, self._connect_options(server)).connect()

    def ended(
        self,
        server: MasterConnection[Connection],
        options: ConnectOptions,
        outcome: Connection | ConnectError,
    ) -> None:
        """An attempt is over; the next one is as `connections.Connections._connect_gen` has it."""
        with self._mutex:
            pause = self._connected(server, options, outcome)
        if pause is not None:
            self.client.after(self.client.lasts(pause), lambda: self._again(server))

    def _again(self, server: MasterConnection[Connection]) -> None:
        with self._mutex:
            if self._may_reconnect(server):
                self._start(server)


class _Attempt:
    """One attempt: connect, then the handshake, a round trip each."""

    def __init__(
        self, connections: Connections, server: MasterConnection[Connection], options: ConnectOptions
    ) -> None:
        self._connections = connections
        self._client = connections.client
        self._server = server
        self._options = options
        self._connection = connections.connection(server)
        self._steps = 0
        self._over = False
        self._connection.disconnect = lambda: self._fail("Connection closed by server")

    def connect(self) -> None:
        self._within(self._options.connect_timeout)
        self._connection.there.send(self._accept)

    def _within(self, seconds: float) -> None:
        """The next step has begun by then, or the attempt has failed."""
        self._steps += 1
        step = self._steps

        def look() -> None:
            if step == self._steps:
                self._fail("Timeout")

        self._client.after(self._client.lasts(seconds), look)

    def _accept(self) -> None:
        connection, client = self._connection, self._client
        if connection.host.up:
            connection.session = connection.host.open(connection)
            connection.back.send(lambda: client.do(self._opened))
        else:
            connection.back.send(lambda: client.do(lambda: self._fail("connection refused")))

    def _opened(self) -> None:
        if self._over:
            self._connection.close()  # given up before
        else:
            self._within(self._options.timeout)
            self._connection.put(self._shake_hands)

    def _shake_hands(self) -> None:
        # Whether or not the client still waits for it.
        outcome: Connection | ConnectError = self._connection
        try:
            self._connection.shake_hands(self._options)
        except ConnectError as error:
            outcome = error
        self._connection.back.send(lambda: self._client.do(lambda: self._end(outcome)))

    def _fail(self, why: str) -> None:
        if not self._over:
            self._end(ConnectError(Fault(FaultKind.DOWN, why)))

    def _end(self, outcome: Connection | ConnectError) -> None:
        if not self._over:
            self._over = True
            self._steps += 1
            if outcome is not self._connection:
                self._connection.close()
            self._connections.ended(self._server, self._options, outcome)


__all__ = ["Connection", "Connections", "Way"]
