"""The command connections of a client on in-memory masters, byte for byte, with a clock that a test moves.

It is the real `Calls` with the real `Connections`: only the sockets are missing. A reply waits until
`WiredCalls` reads it, so a test can count round trips and decide in which order replies are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import hiredis

from rlock._client import calls, connection, connections
from rlock._client.connection import MasterConnection
from rlock._client.handshake import ConnectError, HandshakeResult
from rlock._client.runtime import NO_WAIT, Waiter
from rlock._sync.runtime import Runtime, run
from rlock.model import Fault, FaultKind
from rlock.procedures.port import ClientContext, Request, WaitGenerator
from rlock.rules import commands, scripts
from rlock.rules.command_templates import Command
from rlock.rules.keys import NOTE
from rlock.rules.quorum import Ballot, Settle
from rlock.rules.restart_guard import Guard, MemoryReport
from rlock.testing.memory.masters import Master

TIMEOUT_S = 1.0
EPOCH_US = 1_790_000_000_000_000
UPTIME_S = 3_600.0  # by the masters' clocks, the test begins this long after they were started


def resp(reply: Any) -> bytes:
    """A reply as it comes over the wire."""
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(resp, reply))
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, str):
        return f"-{reply}\r\n".encode()
    return b"$%d\r\n%b\r\n" % (len(reply), reply)


class Server:
    """One master, and everything that it was sent."""

    def __init__(self, index: int, clock: Callable[[], float], *, grouped: bool = False) -> None:
        self.index = index
        self.life = f"r{index}"
        self._grouped = grouped
        self.memory = "volatile"
        self.master = Master(lambda: EPOCH_US + round(clock() * 1e6))
        self.master.started_us = EPOCH_US - round(UPTIME_S * 1e6)
        self.ran: list[str] = []  # the names of the scripts that it ran, in order
        #: As the primary of a group: who acknowledges, who is connected, and the id of the replication.
        self.acknowledging, self.connected, self.replication_id, self.role = 1, [1], "id0", "master"
        self.shake_hands("volatile")

    def shake_hands(self, memory: str) -> MemoryReport:
        """As another connection does it."""
        (_, note, _, _, time_us), _ = self.master.run(commands.handshake(self.run_id, memory))
        return MemoryReport(self.run_id, self.memory, note.decode(), time_us)

    @property
    def run_id(self) -> str:
        """As the note has it."""
        return f"{self.life}+{self.replication_id}" if self._grouped else self.life

    @property
    def note(self) -> str:
        return self.master.text(NOTE)

    @note.setter
    def note(self, text: str) -> None:
        self.master.write(NOTE, text)

    def flush(self) -> None:
        self.master.keys.clear()
        self.master.whole = False

    def run(self, words: Sequence[str]) -> bytes:
        if words[0] in ("PUBLISH", "WAIT", "INFO"):
            self.ran.append(words[0])
            lines = [f"role:{self.role}", f"master_replid:{self.replication_id}"]
            lines += [f"slave{i}:ip=r,port={port},state=online" for i, port in enumerate(self.connected)]
            told = "\r\n".join(lines)
            return resp({"PUBLISH": 0, "WAIT": self.acknowledging, "INFO": told.encode()}[words[0]])
        name = next(s.name for s in scripts.ALL if words[1] in (s.sha, s.source))
        self.ran.append(name)
        count = int(words[2])
        reply, _ = self.master.call(name, words[3 : 3 + count], words[3 + count :])
        return resp(reply)


class Connection(connection.Connection):
    """A connection; replies stand in ``arrived`` until somebody reads them."""

    def __init__(self, server: Server) -> None:
        super().__init__(HandshakeResult(server.shake_hands(server.memory), 7))
        self.server = server
        self.arrived = b""
        self.writes = 0
        self._parser = hiredis.Reader(encoding="utf-8")

    def write(self, packed: bytes) -> int:
        self.writes += 1
        self._parser.feed(packed)
        while (words := self._parser.gets()) is not False:
            self.arrived += self.server.run(words)
        return len(packed)

    def close(self) -> None:
        self.ended = True


class Connections(connections.Connections[Connection]):
    """An attempt is over when `_start` returns."""

    hosts: Sequence[Server]
    down: set[int]  # masters that refuse connections
    trips = 0  # passes in which something was read

    def _start(self, server: MasterConnection[Connection]) -> None:
        refused, host = ConnectError(Fault(FaultKind.DOWN, "refused")), self.hosts[server.index]
        found = refused if server.index in self.down else Connection(host)
        self._connected(server, self._connect_options(server), found)

    def _register(self, server: MasterConnection[Connection], connection: Connection) -> None: ...

    def _unregister(self, connection: Connection) -> None: ...

    def read_until(
        self, waiter: Waiter, done: Callable[[], bool], until: float = math.inf
    ) -> WaitGenerator[None]:
        while not done() and self.read():
            self.trips += 1
        yield from NO_WAIT

    def read(self) -> bool:
        """Take in everything that has arrived until now; False: there was nothing."""
        found = False
        with self._mutex:
            for server in self.servers:
                if server.connection is not None and server.connection.arrived:
                    found, data, server.connection.arrived = True, server.connection.arrived, b""
                    self.take(server, server.connection, data)
        return found


class WiredCalls(calls.Calls[Connection]):
    """Reads one connection after another, in the order of ``order``; each pass is a round trip."""

    _connections: Connections

    def __init__(
        self,
        masters: int = 3,
        max_ttl: float = 10.0,
        seconds: float | None = None,
        groups: Mapping[int, int] | None = None,
    ) -> None:
        self.now = 0.0
        names = [f"redis://m{i}" for i in range(masters)]
        guard = Guard(masters, max_ttl, seconds)
        context = ClientContext(names, lambda: self.now, Random(1), guard, groups=groups or {})
        endpoints = [SimpleNamespace(label=name, tls=False) for name in names]
        super().__init__(connections.Wiring(Connections, endpoints, context, TIMEOUT_S, Runtime()))
        self.guard = guard
        self.servers = [Server(i, lambda: self.now, grouped=i in context.groups) for i in range(masters)]
        self._connections.hosts = self.servers
        self._connections.down = set()

    def cut(self, master: int) -> None:
        with self._mutex:
            self._connections.drop(self._connections.servers[master], Fault(FaultKind.BROKEN, "cut"))

    def away(self, *masters: int) -> None:
        self._connections.down.update(masters)

    def reconnect(self) -> None:
        for server in self._connections.servers:
            server.probe_at = 0.0
        run(self.connect(TIMEOUT_S))

    @property
    def trips(self) -> int:
        """The round trips of the last call."""
        return self._connections.trips

    def connection(self, master: int) -> Connection:
        connection = self._connections.servers[master].connection
        assert connection is not None
        return connection

    def acquire(self, owner: str = "me:1", lease_ms: int = 9_000, settle: Settle = Settle.VERDICT) -> Ballot:
        """A round as `procedures/attempt.py` sends it: the answer to it is foreseen."""
        token = EPOCH_US + round(self.now * 1e6)
        return self.ask(commands.acquire("job", owner, lease_ms, token=token), settle)

    def ask(self, command: Command, settle: Settle = Settle.VERDICT, **how: Any) -> Ballot:
        self._connections.trips = 0
        return run(self.call(Request(command, TIMEOUT_S, settle, **how)))


def interrupted(*_: object) -> None:
    """As a call in which Ctrl-C came."""
    raise KeyboardInterrupt
