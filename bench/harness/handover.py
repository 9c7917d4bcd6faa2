"""The floors of a wake-up: one process tells, another one that waits goes on. No lock: they exclude nobody.

    python -m bench.harness.handover blpop|claim

`blpop`: one pushes, the other one's BLPOP returns; by redis-py, on the first master alone. `claim`: as many
hops as a lock has that is handed over by a message. The push is packed once and written to all masters; who
waits goes on at the message of the q-th, claims with one command to all of them, and goes on at the answer of
the q-th; bare sockets, what is late is read later. On one master that is a BLPOP, a command, and its answer.

A worker as ``bench/README.md`` describes one, that answers open, acquire, release and quit only.
"""

from __future__ import annotations

import json
import platform
import select
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

import hiredis
import redis

from rlock.rules.quorum import quorum

#: What the claim leaves on a master, for so long.
CLAIM_MS = 10_000


class Floor(Protocol):
    name: str

    def wait(self, lock: str, seconds: float) -> bool: ...

    def tell(self, lock: str) -> None: ...


class Blpop:
    name = "BLPOP"

    def __init__(self, urls: Sequence[str]) -> None:
        self.master = redis.Redis.from_url(urls[0])
        self.master.ping()

    def wait(self, lock: str, seconds: float) -> bool:
        return self.master.blpop([lock], seconds) is not None

    def tell(self, lock: str) -> None:
        self.master.rpush(lock, 1)


class Line:
    """One master's socket; it counts, so that a late reply is not taken for that to a newer command."""

    def __init__(self, of: socket.socket) -> None:
        self.socket = of
        self.reader = hiredis.Reader()
        self.asked = self.answered = 0

    def send(self, packed: bytes) -> None:
        self.socket.sendall(packed)
        self.asked += 1

    def read(self) -> list[Any]:
        """What it said to the last command: one reply, or none yet."""
        read = self.socket.recv(65536)
        if not read:
            raise ConnectionError("a master is gone")
        self.reader.feed(read)
        found: list[Any] = []
        while (reply := self.reader.gets()) is not False:
            self.answered += 1
            if isinstance(reply, Exception):
                raise reply
            if self.answered == self.asked:
                found.append(reply)
        return found


class Claim:
    name = "message and claim"

    def __init__(self, urls: Sequence[str]) -> None:
        pools = [redis.ConnectionPool.from_url(url, protocol=2) for url in urls]
        self.connections: list[Any] = [pool.make_connection() for pool in pools]  # kept, or sockets close
        self.lines: dict[int, Line] = {}
        self.poll = select.poll()
        for connection in self.connections:
            connection.connect()
            line = Line(connection._sock)
            self.lines[line.socket.fileno()] = line
            self.poll.register(line.socket, select.POLLIN)
        self.needed = quorum(len(urls))

    def wait(self, lock: str, seconds: float) -> bool:
        if not self.round("BLPOP", lock, f"{seconds:g}"):
            return False
        return self.round("SET", f"{lock}:claim", "1", "PX", str(CLAIM_MS))

    def tell(self, lock: str) -> None:
        self.round("RPUSH", lock, "1")

    def round(self, *command: str) -> bool:
        """To all of them; whether the first q said anything but nothing."""
        packed = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says: of one word
        for line in self.lines.values():
            line.send(packed)
        said: list[Any] = []
        while len(said) < self.needed:
            for number, _ in self.poll.poll():
                said += self.lines[number].read()
        return None not in said


KINDS: dict[str, type[Blpop] | type[Claim]] = {"blpop": Blpop, "claim": Claim}


def main() -> None:
    kind = KINDS[sys.argv[1]]
    floor: Floor | None = None
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        if verb == "quit":
            return
        try:
            reply: dict[str, Any] = {"ok": True}
            if verb == "open":
                floor = kind(request["masters"])
                runtime = f"{platform.python_implementation()} {platform.python_version()}"
                reply |= {"name": floor.name, "version": redis.__version__, "runtime": runtime}
            elif verb in ("acquire", "release") and floor is not None:
                reply |= _performed(floor, verb, **request)
            else:
                reply = {"ok": False, "unsupported": "it hands over, and does nothing else"}
        except Exception as error:
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


def _performed(floor: Floor, verb: str, lock: str, wait_ms: int = 0) -> dict[str, Any]:
    began = time.monotonic_ns()
    if verb == "release":
        floor.tell(lock)
        return {"began": began, "ended": time.monotonic_ns()}
    acquired = floor.wait(lock, wait_ms / 1000)
    return {"acquired": acquired, "asked": began, "entered": time.monotonic_ns()}


if __name__ == "__main__":
    main()
