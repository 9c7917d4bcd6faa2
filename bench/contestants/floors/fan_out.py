"""The floors: the scripts of a pair, or the messages of a hand-off, and nothing else, sent to all at once.

`All`: packed once a round, written to all of redis-py's connections, then all replies read. `Majority`: the
same over bare sockets, going on at the q-th reply; the stragglers' are read later. They know no loss, no
queue, no time-out and no other threads, so they answer `pairs`, `throughput` and `usage` only.

`Message`: a release sends PUBLISH to all bare sockets, and goes on at the q-th reply. The waiter sleeps until
the message has come from a quorum: then it has the lock, and nothing is written. It is for two processes that
wait in turn, answers `acquire`, `release` and `usage`, and knows no queue, no loss and no time-out.
"""

from __future__ import annotations

import os
import select
import socket
import time
import uuid
from typing import Any

import hiredis
import redis
from library import Library, Lock
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.harness.commands import Pairs, template
from rlock.rules.quorum import quorum

_pack: Any = hiredis.pack_command  # its type allows commands of one word only
#: The first element of a reply: done. Anything else is no lock, and the time of it no time of a lock.
DONE = 1
#: A master that owes so many replies has stopped: sending more would fill the socket's buffer one day.
MOST_OWED = 200
#: A release whose message too few masters delivered has freed the lock, so a waiter asks this often.
ASK_AGAIN_S = 0.5


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


class _Lines:
    """All masters' sockets, and a poll of them."""

    def __init__(self, connections: list[Any]) -> None:
        self.needed = quorum(len(connections))
        self.poll = select.poll()
        self.lines: dict[int, _Line] = {}
        for connection in connections:
            line = _Line(connection)
            self.lines[line.socket.fileno()] = line
            self.poll.register(line.socket.fileno(), select.POLLIN)


class _Majority(_Lines):
    def __init__(self, connections: list[Any], name: str, ttl_ms: int) -> None:
        super().__init__(connections)
        self.pairs = Pairs(name, ttl_ms)

    def acquire(self, wait_s: float) -> bool:
        command, self.last = self.pairs.next()
        # The release goes where this goes, or the next one would find the lock taken there.
        self.asking = [fd for fd, line in self.lines.items() if line.asked - line.answered < MOST_OWED]
        self.round(command)
        return True

    def release(self) -> None:
        self.round(self.last)

    def round(self, command: Any) -> None:
        packed = _pack(command)
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


class Message(_Floor):
    name = "SUBSCRIBE and PUBLISH over bare sockets, going on at the majority"
    verbs = frozenset({"acquire", "release"})

    def lock(self, name: str) -> Lock:
        connections = self.connections()
        for connection in connections:
            # In RESP2 a connection with a subscription accepts neither SET nor PUBLISH.
            connection.send_command("HELLO", 3)
            connection.read_response()
        return _Message(connections, name, self.ttl_ms)


class _Message(_Lines):
    def __init__(self, connections: list[Any], name: str, ttl_ms: int) -> None:
        super().__init__(connections)
        self.first = next(iter(self.lines))
        self.channel = f"floor:{{{name}}}:released"
        self.take = _pack(("SET", f"floor:{{{name}}}", "1", "NX", "PX", str(ttl_ms)))
        self.free = _pack(("DEL", f"floor:{{{name}}}"))
        self.subscribe = _pack(("SUBSCRIBE", self.channel))
        self.unsubscribe = _pack(("UNSUBSCRIBE", self.channel))
        self.token = f"bench/{os.getpid()}/MainThread:{uuid.uuid4().hex}"
        self.note = f"{'0' * 40} 0 {ttl_ms}"  # as long as the one in a grant of lua/release.lua
        self.confirmed = 0
        self.heard: dict[bytes, int] = {}
        self.granted = False

    def acquire(self, wait_s: float) -> bool:
        until = time.monotonic() + wait_s
        # Fewer masters than a quorum send the last message late, so the new count never completes with it.
        self.heard.clear()
        self.granted = False
        while self.ask(self.take) is None:
            if not self.confirmed:
                for line in self.lines.values():
                    line.socket.send(self.subscribe)
                while self.confirmed < len(self.lines):
                    self.receive(None)
                continue  # a release before the subscription sent no message here
            ask_at = min(until, time.monotonic() + ASK_AGAIN_S)
            while not self.granted and (left := ask_at - time.monotonic()) > 0:
                self.receive(left * 1000)
            if self.granted:
                return True
            if ask_at == until:
                return False
        return True

    def release(self) -> None:
        now = time.time_ns() // 1000
        command = _pack(("PUBLISH", self.channel, f"{self.token} {now} {now} {self.note}"))
        if self.confirmed:
            # Otherwise PUBLISH would count its own sender among the waiters.
            command = self.unsubscribe + command
            self.confirmed = 0
        for line in self.lines.values():
            line.socket.send(command)
            line.asked += 1
        answered = delivered = 0
        while delivered < self.needed and answered < len(self.lines):
            for receivers in self.receive(None).values():
                answered += 1
                delivered += receivers > 0
        if delivered < self.needed:
            self.ask(self.free)

    def ask(self, command: bytes) -> Any:
        """The reply of the first master."""
        line = self.lines[self.first]
        line.socket.send(command)
        line.asked += 1
        while self.first not in (replies := self.receive(None)):
            pass
        return replies[self.first]

    def receive(self, timeout_ms: float | None) -> dict[int, Any]:
        """Read what has come, and count the messages. Returns replies to the last command of a master."""
        replies = {}
        for fd, _ in self.poll.poll(timeout_ms):
            line = self.lines[fd]
            read = line.socket.recv(65536)
            if not read:
                raise ConnectionError("a master has closed the connection")
            line.reader.feed(read)
            while (reply := line.reader.gets()) is not False:
                if not isinstance(reply, hiredis.PushNotification):
                    line.answered += 1
                    if line.answered == line.asked:
                        replies[fd] = reply
                elif reply[0] == b"message":
                    count = self.heard[reply[2]] = self.heard.get(reply[2], 0) + 1
                    if count == self.needed:
                        self.granted = True
                elif reply[0] == b"subscribe":
                    self.confirmed += 1
        return replies
