"""Links: open connections, and the handshake that tells what kind of server is at the other end.

Once the handshake is over we write to and read from the bare socket ourselves, because a round has to write
to all masters before it reads from any.
"""

from __future__ import annotations

# Needed for the first connection. Without a free descriptor it cannot be imported then, and Python would
# remember for ever that there is no such encoding.
import encodings.idna  # noqa: F401
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
import redis
from redis.connection import AbstractConnection

from ..model import Fault, FaultKind
from ..rules import scripts
from ..rules.guard import Handshake
from ..rules.keys import MARKER
from .masters import Endpoint

log = logging.getLogger("rlock")

#: Far enough for a master on another continent.
LEAST_CONNECT_S = 0.25


def pack(words: tuple[str, ...]) -> bytes:
    """A command as it goes on the wire. Text only: see `rules.scripts.Command`."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


class DialError(Exception):
    """A connection could not be made, with the fault that its master gets for it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Link:
    """One open connection: a socket to write to, and the replies that are owed on it, in order."""

    __slots__ = (
        "_keep",
        "answered",
        "client_id",
        "fileno",
        "handshake",
        "outbox",
        "owed",
        "reader",
        "run_id",
        "socket",
    )

    def __init__(self, connection: AbstractConnection, handshake: Handshake, client_id: int) -> None:
        bare: Any = connection._sock
        bare.setblocking(False)
        self._keep = connection  # closes the socket when it goes
        self.socket = bare
        self.fileno = bare.fileno()
        self.reader = hiredis.Reader()
        #: Something has arrived since the handshake.
        self.answered = False
        #: Requests without a reply yet; the driver's own entries.
        self.owed: deque[Any] = deque()
        #: Bytes that the kernel did not take.
        self.outbox = bytearray()
        self.handshake = handshake
        #: Identity of the server's life, '' when it is not told.
        self.run_id = handshake.run_id
        #: How the server calls this connection.
        self.client_id = client_id

    def send(self, packed: bytes) -> None:
        """Write, or keep for later what the kernel does not take. Raises OSError on a broken connection."""
        if self.outbox:
            self.outbox += packed
            return
        try:
            sent = self.socket.send(packed)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            if not _wants_more(error):
                raise
            sent = 0
        if sent < len(packed):
            self.outbox += packed[sent:]

    def flush(self) -> None:
        """Write what was kept."""
        kept, self.outbox = bytes(self.outbox), bytearray()
        self.send(kept)

    def receive(self) -> bool:
        """Read what has arrived into the reader. False: the peer has closed."""
        while True:
            try:
                data = self.socket.recv(65536)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError as error:
                if _wants_more(error):
                    return True
                raise
            if not data:
                return False
            self.reader.feed(data)
            self.answered = True
            # TLS may hold decrypted bytes that no poll reports: read until it wants more.
            if len(data) < 65536 and not hasattr(self.socket, "pending"):
                return True

    def close(self) -> None:
        """Close without a word: in a forked child the peer must not notice."""
        try:
            self.socket.close()
        except OSError:
            pass


def _wants_more(error: OSError) -> bool:
    # ssl.SSLWantReadError and SSLWantWriteError, without importing ssl where it is not used
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def dial(
    endpoint: Endpoint,
    timeout: float,
    *,
    request_timeout: float = 1.0,
    kill: Sequence[tuple[str, int]] = (),
    subscriber: bool = False,
    guarded: bool = True,
) -> Link:
    """Connect, and learn what kind of server it is. Blocks; raises `DialError`.

    ``guarded``: learn what the restart guard has to know, too.

    ``kill``: connections of ours to end first, as (run_id, client id). What they sent and got no answer
    for would otherwise run when a stopped server goes on: an old acquire after its release, for one.
    """
    # Shorter than a second, after which Linux repeats a lost SYN: our own repetition is faster.
    connection = endpoint.connection(timeout, min(timeout, max(request_timeout, LEAST_CONNECT_S)))
    try:
        connection.connect()
        if subscriber:
            return Link(connection, Handshake(), 0)
        if kill:
            # Only in the life in which they were made: after a restart the same numbers are other
            # people's connections.
            (server,) = _exchange(connection, [("INFO", "server")])
            life = _field(server, "run_id")
            _exchange(connection, [("CLIENT", "KILL", "ID", old) for run_id, old in kill if run_id == life])
        asked = _HANDSHAKE if guarded else _HANDSHAKE[:4]
        loads = [("SCRIPT", "LOAD", script.source) for script in scripts.ALL]
        replies = _exchange(connection, [*asked, *loads])
    except (
        redis.AuthenticationError,
        redis.exceptions.AuthorizationError,
        redis.exceptions.NoPermissionError,
    ) as error:
        connection.disconnect()
        raise DialError(Fault(FaultKind.DENIED, str(error))) from None
    except redis.ResponseError as error:
        connection.disconnect()
        raise DialError(scripts.decode_fault(error)) from None
    except (redis.RedisError, OSError, ValueError) as error:
        connection.disconnect()
        raise DialError(Fault(FaultKind.DOWN, str(error) or type(error).__name__)) from None
    except BaseException:
        connection.disconnect()
        raise
    client_id, server, replication, memory, *guarding = replies[: len(asked)]
    if b"NOAUTH" in _text(server):
        connection.disconnect()
        raise DialError(Fault(FaultKind.DENIED, _text(server).decode("utf-8", "replace")))
    if _field(replication, "role") in ("slave", "replica"):
        connection.disconnect()
        raise DialError(Fault(FaultKind.REPLICA, "it is a replica: name its master, or promote it"))
    policy = _field(memory, "maxmemory_policy")
    if policy and policy != "noeviction":
        _warn_of_eviction(endpoint.label, policy)
    life = _field(server, "run_id")
    handshake = _handshake(server, replication, *guarding) if guarding else Handshake(life)
    return Link(connection, handshake, client_id if isinstance(client_id, int) else 0)


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


def _exchange(connection: AbstractConnection, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    if commands:
        connection.send_packed_command(connection.pack_commands(commands))
    return [_reply(connection) for _ in commands]


def _reply(connection: AbstractConnection) -> Any:
    try:
        return connection.read_response()
    except redis.AuthenticationError:
        raise
    except redis.ResponseError as error:
        # One command that this user may not run (INFO, CLIENT KILL, SCRIPT LOAD) takes a check or an
        # optimisation away, not the lock.
        return error


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
