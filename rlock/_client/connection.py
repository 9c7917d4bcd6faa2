"""Links: open connections, and the greeting that tells what kind of server is at the other end.

redis-py opens them. Once the greeting is over we write and read ourselves, because a round has to write to
all masters before it reads from any.
"""

from __future__ import annotations

# Needed for the first connection. Without a free descriptor it cannot be imported then, and Python would
# remember for ever that there is no such encoding.
import encodings.idna  # noqa: F401
import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import hiredis
import redis

from ..model import Fault, FaultKind
from ..rules import commands, replies, scripts
from ..rules.command_templates import end_of_acquire
from ..rules.memory_epoch import MemoryReport

log = logging.getLogger("rlock")

#: Far enough for a master on another continent.
LEAST_CONNECT_S = 0.25


class Reader(hiredis.Reader):
    """One that raises errors of hiredis only."""

    def gets(self, *args: Any) -> Any:
        """The next reply; False: there is none yet."""
        try:
            return super().gets(*args)
        except TypeError as error:  # a map of RESP3, which nobody asked for, with a key that has no hash
            raise hiredis.ProtocolError(str(error)) from None


class ConnectError(Exception):
    """A connection could not be made, with the fault that its master gets for it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Connection(ABC):
    """One open connection: what is written to it, and the replies that are owed on it, in order."""

    __slots__ = (
        "answered",
        "connection_id",
        "ended",
        "heard_at",
        "judging",
        "memory_report",
        "note",
        "pending",
        "reader",
        "run_id",
        "tail",
    )

    def __init__(self, greeted: HandshakeResult) -> None:
        self.reader = Reader()
        #: The note with which grants count now, and how a foreseen answer ends with it; None: none counts.
        self.note: str | None = None
        self.tail: bytes | None = None
        #: When the last command went out that was answered.
        self.heard_at = -math.inf
        #: A handshake is under way, because an answer came with a note that nobody has judged.
        self.judging = False
        #: Something has arrived since the greeting.
        self.answered = False
        #: The peer has closed.
        self.ended = False
        #: Requests without a reply yet; the driver's own entries.
        self.pending: deque[Any] = deque()
        self.memory_report = greeted.memory_report
        #: Identity of the server's life, '' when it is not told.
        self.run_id = greeted.memory_report.run_id
        #: How the server calls this connection.
        self.connection_id = greeted.connection_id

    def expect(self, note: str | None) -> None:
        """With which note grants count from now on; None: with none, so each answer is read and judged."""
        self.note, self.tail = note, None if note is None else end_of_acquire(note)

    @abstractmethod
    def send(self, packed: bytes) -> bool:
        """Write, or keep for later what cannot go out now; whether `Connections.hold_back` has to send it.

        Raises OSError on a broken connection.
        """

    @abstractmethod
    def close(self) -> None:
        """Close without a word to the peer."""

    def abandon(self) -> None:
        """In a forked child: close our copy; neither the peer nor the parent may notice."""
        self.close()


class ConnectOptions(NamedTuple):
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


class HandshakeResult(NamedTuple):
    """What a greeting found."""

    memory_report: MemoryReport = MemoryReport()
    connection_id: int = 0


#: Commands of a greeting, written at once; sent their replies, an exception in the place of a refused one.
HandshakeSteps = Generator[Sequence[tuple[str, ...]], list[Any], HandshakeResult]


def handshake_steps(label: str, call: ConnectOptions) -> HandshakeSteps:
    """Learn what kind of server is at the other end. Raises `ConnectError` for one that is no master."""
    if call.subscriber:
        return HandshakeResult()
    if call.kill:
        # Only in the life in which they were made: after a restart the same numbers are other
        # people's connections.
        (server,) = yield [("INFO", "server")]
        life = _field(server, "run_id")
        yield [("CLIENT", "KILL", "ID", str(old)) for run_id, old in call.kill if run_id == life]
    asked = _QUESTIONS if call.guarded else _QUESTIONS[:4]
    loads = [("SCRIPT", "LOAD", script.source) for script in scripts.ALL]
    told = yield [*asked, *loads]
    connection_id, server, replication, memory, *disk = told[: len(asked)]
    if isinstance(server, Exception) and "NOAUTH" in str(server):
        raise ConnectError(Fault(FaultKind.DENIED, str(server)))
    if _field(replication, "role") in ("slave", "replica"):
        raise ConnectError(Fault(FaultKind.REPLICA, "it is a replica: name its master, or promote it"))
    policy = _field(memory, "maxmemory_policy")
    if policy and policy != "noeviction":
        _warn_of_eviction(label, policy)
    report = MemoryReport(_field(server, "run_id"))
    if call.guarded:
        durable = is_durable(replication, *disk)
        report = report._replace(memory="durable" if durable else "volatile")
        # The first script on this connection: with it the master judges its own memory.
        (reply,) = yield [commands.handshake(report.run_id, report.memory).by_source()]
        vote = replies.decode_handshake(reply)
        if vote.note is not None:
            report = report._replace(note=vote.note, time_us=vote.time_us)
    return HandshakeResult(report, connection_id if isinstance(connection_id, int) else 0)


def connect_error(error: Exception) -> ConnectError:
    """What an exception of redis-py, or of the system, means for a master."""
    denied = (
        redis.AuthenticationError,
        redis.exceptions.AuthorizationError,
        redis.exceptions.NoPermissionError,
    )
    if isinstance(error, denied):
        return ConnectError(Fault(FaultKind.DENIED, str(error)))
    if isinstance(error, redis.ResponseError):
        return ConnectError(replies.fault(without_arguments(error)))
    text, reason = str(error) or type(error).__name__, error.__context__
    if isinstance(reason, OSError) and reason.strerror and reason.strerror not in text:
        # redis.asyncio before 5.1 says "Error 1 connecting to host:6379. 1." of every certificate.
        text = f"{text} {reason.strerror}"
    return ConnectError(Fault(FaultKind.DOWN, text))


def without_arguments(error: BaseException) -> str:
    """The text of an error, without the words of the command.

    A server without AUTH repeats the password: "unknown command 'AUTH', with args beginning with: ...".
    """
    return str(error).partition(", with args beginning with")[0]


_QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("CLIENT", "ID"),
    ("INFO", "server"),
    ("INFO", "replication"),
    ("INFO", "memory"),
    ("INFO", "persistence"),
    ("CONFIG", "GET", "appendfsync"),
    ("CONFIG", "GET", "no-appendfsync-on-rewrite"),
)


def is_durable(replication: Any, persistence: Any, appendfsync: Any, unsynced_rewrite: Any) -> bool:
    """Whether nothing that this master answered is lost by a restart. An answer that is refused says no."""
    return (
        _field(persistence, "aof_enabled") == "1"
        and replies.setting(appendfsync) == "always"
        # `yes`: nothing is synced while the file is rewritten.
        and replies.setting(unsynced_rewrite) == "no"
        # A promoted replica lacks the last moments of its primary.
        and bool(_field(replication, "master_replid2"))
        and not _field(replication, "master_replid2").strip("0")
    )


def _field(info: Any, name: str) -> str:
    return replies.fields(info).get(name, "")


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
