"""The floors in Python: what a pair costs when there is nothing but its scripts, sent to all at once.

`All`: packed once a round, written to all of redis-py's connections, then all replies read. `Majority`: the
same over bare sockets, going on at the q-th reply; the stragglers' are read later. They know no loss, no
queue, no time-out and no other threads, so they answer `pairs`, `throughput` and `usage` only.
"""

from __future__ import annotations

import select
import socket
from typing import Any

import hiredis
import redis
from library import Library, Lock
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.harness.commands import Pairs, template
from rlock.rules.quorum import quorum

#: The first element of a reply: done. Anything else is no lock, and the time of it no time of a lock.
DONE = 1
#: A master that owes so many replies has stopped: sending more would fill the socket's buffer one day.
MOST_OWED = 200


class _Floor(Library):
    version = f"redis-py {redis.__version__}"
    verbs = frozenset({"pairs", "throughput"})

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.masters, self.ttl_ms = masters, ttl_ms
        self.connections()  # thrown away: masters that do not answer are to be told of now

    def connections(self) -> list[Any]:
        """A connection of redis-py's to each master, with the scripts loaded."""
        opened: list[Any] = []
        for url in self.masters:
            pool = redis.ConnectionPool.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
            connection = pool.make_connection()
            connection.connect()
            for source, _ in template():
                connection.send_command("SCRIPT", "LOAD", source)
                connection.read_response()
            opened.append(connection)
        return opened


def _check(reply: Any) -> None:
    if not isinstance(reply, list) or reply[0] != DONE:
        raise RuntimeError(f"the floor was refused: {reply}")


class All(_Floor):
    name = "fan-out over redis-py's connections, all replies"

    def lock(self, name: str) -> Lock:
        return _All(self.connections(), name, self.ttl_ms)


class _All:
    def __init__(self, connections: list[Any], name: str, ttl_ms: int) -> None:
        self.connections = connections
        self.pairs = Pairs(name, ttl_ms)

    def acquire(self, wait_s: float) -> bool:
        command, self.last = self.pairs.next()
        self.round(command)
        return True

    def release(self) -> None:
        self.round(self.last)

    def round(self, command: tuple[str, ...]) -> None:
        packed = self.connections[0].pack_command(*command)
        try:
            for connection in self.connections:
                connection.send_packed_command(packed)
            replies = [connection.read_response() for connection in self.connections]
        except Exception:
            # What was not read would be taken for the answers of the next round. They connect again then.
            for connection in self.connections:
                connection.disconnect()
            raise
        for reply in replies:
            _check(reply)


class Majority(_Floor):
    name = "fan-out over bare sockets, going on at the majority"

    def lock(self, name: str) -> Lock:
        return _Majority(self.connections(), name, self.ttl_ms)


class _Line:
    """One master's socket; it counts, so that a late reply is not taken for a newer one's."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection  # kept, or its socket closes
        self.socket: socket.socket = connection._sock
        self.socket.setblocking(False)
        self.reader = hiredis.Reader()
        self.asked = self.answered = 0


class _Majority:
    def __init__(self, connections: list[Any], name: str, ttl_ms: int) -> None:
        self.pairs = Pairs(name, ttl_ms)
        self.needed = quorum(len(connections))
        self.poll = select.poll()
        self.lines = {}
        for connection in connections:
            line = _Line(connection)
            self.lines[line.socket.fileno()] = line
            self.poll.register(line.socket.fileno(), select.POLLIN)

    def acquire(self, wait_s: float) -> bool:
        command, self.last = self.pairs.next()
        # The release goes where this goes, or the next one would find the lock taken there.
        self.asking = [fd for fd, line in self.lines.items() if line.asked - line.answered < MOST_OWED]
        self.round(command)
        return True

    def release(self) -> None:
        self.round(self.last)

    def round(self, command: Any) -> None:
        packed = hiredis.pack_command(command)
        asked = set()
        for fd in self.asking:
            if (line := self.lines.get(fd)) is not None:
                try:
                    line.socket.send(packed)
                except OSError:
                    self.drop(fd)
                    continue
                line.asked += 1
                asked.add(fd)
        granted = 0
        while granted < self.needed:
            if len(asked) < self.needed - granted:
                raise ConnectionError("too few masters answer")
            for fd, _ in self.poll.poll():
                line = self.lines[fd]
                try:
                    read = line.socket.recv(65536)
                except OSError:
                    read = b""
                if not read:
                    asked.discard(fd)
                    self.drop(fd)
                    continue
                line.reader.feed(read)
                while (reply := line.reader.gets()) is not False:
                    line.answered += 1
                    if fd in asked and line.answered == line.asked:
                        asked.discard(fd)
                        _check(reply)
                        granted += 1

    def drop(self, fd: int) -> None:
        """A master that is gone is asked no more."""
        self.poll.unregister(fd)
        self.lines.pop(fd).connection.disconnect()
