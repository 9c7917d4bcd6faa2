"""Links: open connections, and the greeting that tells what kind of server is at the other end.

redis-py opens them. Once the greeting is over we write and read ourselves, because a round has to write to
all masters before it reads from any.
"""

from __future__ import annotations

# Needed for the first connection. Without a free descriptor it cannot be imported then, and Python would
# remember for ever that there is no such encoding.
import encodings.idna  # noqa: F401
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import hiredis
import redis

from ..model import Fault, FaultKind
from ..rules import scripts
from ..rules.guard import Handshake
from ..rules.keys import MARKER

log = logging.getLogger("rlock")

#: Far enough for a master on another continent.
LEAST_CONNECT_S = 0.25


def pack(words: Sequence[str]) -> bytes:
    """A command as it goes on the wire. Text only: see `rules.scripts.Command`."""
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


class DialError(Exception):
    """A connection could not be made, with the fault that its master gets for it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Link(ABC):
    """One open connection: what is written to it, and the replies that are owed on it, in order."""

    __slots__ = (
        "answered",
        "client_id",
        "ended",
        "handshake",
        "known_at",
        "marker",
        "owed",
        "reader",
        "run_id",
        "tail",
    )

    def __init__(self, greeted: Greeted) -> None:
        self.reader = hiredis.Reader()
        #: The last marker that was read, and how a foreseen answer ends with it.
        self.marker = ""
        self.tail = scripts.marked_end("")
        #: At which state of the guard (`Guard.changes`) that marker was no news.
        self.known_at = -1
        #: Something has arrived since the greeting.
        self.answered = False
        #: The peer has closed.
        self.ended = False
        #: Requests without a reply yet; the driver's own entries.
        self.owed: deque[Any] = deque()
        self.handshake = greeted.handshake
        #: Identity of the server's life, '' when it is not told.
        self.run_id = greeted.handshake.run_id
        #: How the server calls this connection.
        self.client_id = greeted.client_id

    def remember(self, marker: str) -> None:
        """The marker that answers are foreseen to have from now on."""
        self.marker, self.tail, self.known_at = marker, scripts.marked_end(marker), -1

    @abstractmethod
    def send(self, packed: bytes) -> bool:
        """Write, or keep for later what cannot go out now; whether it is for `Roster.hold_back` to see to it.

        Raises OSError on a broken connection.
        """

    @abstractmethod
    def close(self) -> None:
        """Close without a word to the peer."""

    def abandon(self) -> None:
        """In a forked child: close our copy; neither the peer nor the parent may notice."""
        self.close()


class Call(NamedTuple):
    """How a connection is to be made."""

    timeout: float  # seconds for each step
    request_timeout: float = 1.0
    #: Connections of ours to end first, as (run_id, client id). What they sent and got no answer for would
    #: otherwise run when a stopped server goes on: an old acquire after its release, for one.
    kill: Sequence[tuple[str, int]] = ()
    subscriber: bool = False
    guarded: bool = True  # learn what the restart guard has to know, too

    @property
    def connect_timeout(self) -> float:
        """Shorter than a second, after which Linux repeats a lost SYN: our own repetition is faster."""
        return min(self.timeout, max(self.request_timeout, LEAST_CONNECT_S))


class Greeted(NamedTuple):
    """What a greeting found."""

    handshake: Handshake = Handshake()
    client_id: int = 0


#: Commands of a greeting, written at once; sent their replies, an exception in the place of a refused one.
Greeting = Generator[Sequence[tuple[str, ...]], list[Any], Greeted]


def greet(label: str, call: Call) -> Greeting:
    """Learn what kind of server is at the other end. Raises `DialError` for one that is no master."""
    if call.subscriber:
        return Greeted()
    if call.kill:
        # Only in the life in which they were made: after a restart the same numbers are other
        # people's connections.
        (server,) = yield [("INFO", "server")]
        life = _field(server, "run_id")
        yield [("CLIENT", "KILL", "ID", str(old)) for run_id, old in call.kill if run_id == life]
    asked = _HANDSHAKE if call.guarded else _HANDSHAKE[:4]
    loads = [("SCRIPT", "LOAD", script.source) for script in scripts.ALL]
    replies = yield [*asked, *loads]
    client_id, server, replication, memory, *guarding = replies[: len(asked)]
    if b"NOAUTH" in _text(server):
        raise DialError(Fault(FaultKind.DENIED, _text(server).decode("utf-8", "replace")))
    if _field(replication, "role") in ("slave", "replica"):
        raise DialError(Fault(FaultKind.REPLICA, "it is a replica: name its master, or promote it"))
    policy = _field(memory, "maxmemory_policy")
    if policy and policy != "noeviction":
        _warn_of_eviction(label, policy)
    handshake = (
        _handshake(server, replication, *guarding) if guarding else Handshake(_field(server, "run_id"))
    )
    return Greeted(handshake, client_id if isinstance(client_id, int) else 0)


def dial_error(error: Exception) -> DialError:
    """What an exception of redis-py, or of the system, means for a master."""
    denied = (
        redis.AuthenticationError,
        redis.exceptions.AuthorizationError,
        redis.exceptions.NoPermissionError,
    )
    if isinstance(error, denied):
        return DialError(Fault(FaultKind.DENIED, str(error)))
    if isinstance(error, redis.ResponseError):
        return DialError(scripts.decode_fault(error))
    return DialError(Fault(FaultKind.DOWN, str(error) or type(error).__name__))


_HANDSHAKE: tuple[tuple[str, ...], ...] = (
    ("CLIENT", "ID"),
    ("INFO", "server"),
    ("INFO", "replication"),
    ("INFO", "memory"),
    ("INFO", "persistence"),
    ("CONFIG", "GET", "appendfsync"),
    ("TIME",),
    ("GET", MARKER),
)


def _handshake(
    server: Any, replication: Any, persistence: Any, appendfsync: Any, time: Any, marker: Any
) -> Handshake:
    """What the restart guard goes by. What a user may not ask is taken for the worse."""
    uptime = _field(server, "uptime_in_seconds")
    former = _field(replication, "master_replid2").strip("0")
    fsync = appendfsync[1] if isinstance(appendfsync, list) and len(appendfsync) == 2 else b""
    return Handshake(
        run_id=_field(server, "run_id"),
        uptime_s=float(uptime) if uptime.lstrip("-").isdigit() else None,
        time_us=int(time[0]) * 1_000_000 + int(time[1]) if isinstance(time, list | tuple) else 0,
        marker=marker.decode("utf-8", "replace") if isinstance(marker, bytes) else "",
        durable=_field(persistence, "aof_enabled") == "1" and fsync == b"always",
        promoted=bool(former),
    )


def _text(reply: Any) -> bytes:
    return reply if isinstance(reply, bytes) else str(reply).encode("utf-8", "replace")


def _field(info: Any, name: str) -> str:
    for line in _text(info).splitlines():
        key, _, value = line.partition(b":")
        if key == name.encode():
            return value.decode("utf-8", "replace").strip()
    return ""


_warned: set[tuple[str, str]] = set()


def _warn_of_eviction(label: str, policy: str) -> None:
    if (label, policy) not in _warned:
        _warned.add((label, policy))
        log.warning(
            "%s has maxmemory-policy %s: under memory pressure it throws held locks away silently; "
            "set it to noeviction",
            label,
            policy,
        )
