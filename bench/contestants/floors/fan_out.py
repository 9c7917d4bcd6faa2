"""The floors: the scripts of a pair and nothing else, sent to all masters at once.

`All`: packed once a round, written to all of redis-py's connections, then all replies read. `Majority`: the
same over bare sockets, going on at the q-th reply; the stragglers' are read later. They know no loss, no
queue, no time-out and no other threads: `loop` with locks of their own is all that they can be asked.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from typing import Any

import hiredis
import redis
from library import Library, Lock
from redis.backoff import NoBackoff
from redis.retry import Retry

from rlock.rules import commands
from rlock.rules.keys import OWN
from rlock.rules.quorum import quorum

_pack: Any = hiredis.pack_command  # its type allows commands of one word only
#: The first element of a reply: done. Anything else is no lock, and the time of it no time of a lock.
DONE = 1
#: A master that owes so many replies has stopped: sending more would fill the socket's buffer one day.
MOST_OWED = 200
#: Placeholders for the values that differ from pair to pair.
_OWNER, _TOKEN = "@OWNER@", 987_654_321_000_001


class Pairs:
    """The commands of one lock's pairs. Each has an owner of its own, as a hold has.

    With one owner for all, the script would not have to store a new fencing token: less than the lock's.
    """

    def __init__(self, name: str, ttl_ms: int) -> None:
        acquire = commands.acquire(name, _OWNER, ttl_ms, token=_TOKEN)
        release = commands.free(OWN, name, _OWNER, token=_TOKEN)
        self.sources = [command.script.source for command in (acquire, release)]
        self._texts = [list(command.by_sha()) for command in (acquire, release)]
        self._owners, self._tokens = (
            [(texts, place) for texts in self._texts for place, text in enumerate(texts) if text == mark]
            for mark in (_OWNER, str(_TOKEN))
        )
        self._client = f"bench/{os.getpid()}/MainThread"
        self._count = itertools.count()

    def next(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        owner, token = f"{self._client}:{next(self._count):032x}", str(time.time_ns() // 1000)
        for texts, place in self._owners:
            texts[place] = owner
        for texts, place in self._tokens:
            texts[place] = token
        return tuple(self._texts[0]), tuple(self._texts[1])


class _Floor(Library):
    version = f"redis-py {redis.__version__}"
    kind: type[_All]

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.masters, self.ttl_ms = masters, ttl_ms
        self.lock("floor")  # thrown away: masters that do not answer are to be told of now

    def lock(self, name: str) -> Lock:
        pairs, opened = Pairs(name, self.ttl_ms), list[Any]()
        for url in self.masters:
            pool = redis.ConnectionPool.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
            connection = pool.make_connection()
            connection.connect()
            for source in pairs.sources:
                connection.send_command("SCRIPT", "LOAD", source)
                connection.read_response()
            opened.append(connection)
        lock = self.kind(opened, pairs)
        return Lock(lock.acquire, lock.release)


class _All:
    """Over redis-py's connections, all replies."""

    def __init__(self, connections: list[Any], pairs: Pairs) -> None:
        self.connections, self.pairs = connections, pairs

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


def _check(reply: Any) -> None:
    if not isinstance(reply, list) or reply[0] != DONE:
        raise RuntimeError(f"the floor was refused: {reply}")


class _Line:
    """One master's socket; it counts, so that a late reply is not taken for a newer one's."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection  # kept, or its socket closes
        self.socket: socket.socket = connection._sock
        self.socket.setblocking(False)
        self.reader = hiredis.Reader()
        self.asked = self.answered = 0


class _Majority(_All):
    """Over bare sockets, going on at the majority."""

    def __init__(self, connections: list[Any], pairs: Pairs) -> None:
        super().__init__(connections, pairs)
        self.needed = quorum(len(connections))
        self.poll = select.poll()
        self.lines = {line.socket.fileno(): line for line in map(_Line, connections)}
        for fd in self.lines:
            self.poll.register(fd, select.POLLIN)

    def acquire(self, wait_s: float) -> bool:
        # The release goes where this goes, or the next one would find the lock taken there.
        self.asking = [fd for fd, line in self.lines.items() if line.asked - line.answered < MOST_OWED]
        return super().acquire(wait_s)

    def round(self, command: tuple[str, ...]) -> None:
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


class All(_Floor):
    kind = _All


class Majority(_Floor):
    kind = _Majority
