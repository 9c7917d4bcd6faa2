"""Masters: where they are, and connections to them.

redis-py makes the connections, so TLS, users and passwords, unix sockets and credential providers are
its own. Once the handshake is over we write to and read from the bare socket ourselves, because a round
has to write to all masters before it reads from any.
"""

from __future__ import annotations

import logging
import re
import socket
from collections import deque
from collections.abc import Sequence
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, parse_url
from redis.retry import Retry

from ..errors import OptionsError
from ..model import Fault, FaultKind
from ..rules import scripts

log = logging.getLogger("rlock")

#: Arguments of redis-py's own pools that mean nothing to a single connection of ours.
_POOL_ARGUMENTS = (
    "maint_",
    "oss_cluster_",
    "orig_",
    "maintenance_",
    "event_dispatcher",
    "himport_",
    "max_connections",
    "timeout",
    "queue_class",
    "pool_class",
    "cache",
)

#: A peer that vanished without a word is noticed by the kernel after some 11 s, with no command sent.
_KEEPALIVE = {
    getattr(socket, option): value
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
    if hasattr(socket, option)
}


def _quiet() -> dict[str, Any]:
    """Arguments that keep redis-py from spending a round trip each on announcements of its own."""
    known = signature(AbstractConnection.__init__).parameters
    quiet: dict[str, Any] = {}
    if "driver_info" in known:
        quiet["driver_info"] = None
    elif "lib_name" in known:
        quiet |= {"lib_name": None, "lib_version": None}
    if "maint_notifications_config" in known:
        from redis.maint_notifications import MaintNotificationsConfig

        quiet["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    return quiet


_QUIET = _quiet()
_HINT = "use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready redis.Redis object"


def pack(words: tuple[str, ...]) -> bytes:
    """A command as it goes on the wire. Text only: see `rules.scripts.Command`."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


class DialError(Exception):
    """A connection could not be made, with the fault that its master gets for it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Endpoint:
    """Where one master is and how to speak to it. Makes connections; holds none."""

    def __init__(self, master: object) -> None:
        if isinstance(master, str):
            self._class, self._arguments = _from_url(master)
            try:
                self.connection(1.0)
            except (TypeError, ValueError, redis.RedisError) as error:
                raise OptionsError(
                    f"{_redacted(master)!r} has an option that means nothing: {error}"
                ) from None
        else:
            self._class, self._arguments = _from_client(master)
        #: What is pickled to make the same endpoint elsewhere.
        self.source = master
        #: Its name for people, without user and password.
        self.label = _label(self._class, self._arguments)

    @property
    def place(self) -> tuple[str, ...]:
        """What two names of one server have in common; the database number does not make two masters."""
        if "path" in self._arguments:
            return ("unix", str(self._arguments["path"]))
        host = str(self._arguments.get("host", "localhost")).lower()
        return (host, str(self._arguments.get("port", 6379)))

    def connection(self, timeout: float) -> AbstractConnection:
        """A connection that is not open yet. ``timeout``: seconds for each step of opening it."""
        arguments = {
            **self._arguments,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            # redis-py retries ten times by default, and so would repeat a script silently.
            "retry": Retry(NoBackoff(), 0),
            "retry_on_error": [],
            "retry_on_timeout": False,
            "health_check_interval": 0,
            # RESP2: replies come in order and nothing else comes in between.
            "protocol": 2,
            "decode_responses": False,
            **_QUIET,
        }
        if "path" not in arguments:
            arguments.setdefault("socket_keepalive", True)
            if not isinstance(arguments.get("socket_keepalive_options"), dict):
                arguments["socket_keepalive_options"] = _KEEPALIVE
        connection: AbstractConnection = self._class(**arguments)
        return connection


def endpoints(masters: object) -> list[Endpoint]:
    """Checked masters: at least one, each a URL or a redis.Redis, no server twice."""
    if isinstance(masters, str):
        # The value of RLOCK_MASTERS, pasted.
        masters = [url for url in re.split(r"[,\s]+", masters) if url]
    elif isinstance(masters, redis.Redis):
        masters = [masters]
    if not isinstance(masters, Sequence):
        raise OptionsError(f"masters must be a list of URLs, not {type(masters).__name__}: {_HINT}")
    if not masters:
        raise OptionsError(f"at least one master is needed, and the list is empty: {_HINT}")
    found: dict[tuple[str, ...], Endpoint] = {}
    for master in masters:
        endpoint = Endpoint(master)
        if endpoint.place in found:
            raise OptionsError(
                f"{endpoint.label} is in the list twice: a majority of one server is none, "
                f"each master must be a server of its own"
            )
        found[endpoint.place] = endpoint
    return list(found.values())


def _from_url(url: str) -> tuple[type[Any], dict[str, Any]]:
    plain = url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1)
    try:
        arguments = dict(parse_url(plain))
    except ValueError as error:
        raise OptionsError(f"{_redacted(url)!r} is no master's URL ({error}): {_HINT}") from None
    if not plain.startswith("unix://") and "host" not in arguments:
        raise OptionsError(f"{_redacted(url)!r} names no host: {_HINT}")
    if plain.startswith("unix://") and not arguments.get("path"):
        raise OptionsError(f"{_redacted(url)!r} names no path: {_HINT}")
    return arguments.pop("connection_class", redis.Connection), _without_pool(arguments)


def _without_pool(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if not key.startswith(_POOL_ARGUMENTS)}


def _from_client(client: object) -> tuple[type[Any], dict[str, Any]]:
    if not isinstance(client, redis.Redis):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise OptionsError(f"a {kind} is no master: {_HINT}")
    pool = client.connection_pool
    if hasattr(pool, "sentinel_manager"):
        raise OptionsError(
            "a Sentinel client is no independent master: a failover forgets the last leases; "
            "name each master by its own address"
        )
    return pool.connection_class, _without_pool(pool.connection_kwargs)


def _label(connection_class: type[Any], arguments: dict[str, Any]) -> str:
    if "path" in arguments:
        return f"unix://{arguments['path']}"
    scheme = "rediss" if issubclass(connection_class, redis.SSLConnection) else "redis"
    host, database = arguments.get("host", "localhost"), arguments.get("db") or 0
    return f"{scheme}://{host}:{arguments.get('port', 6379)}" + (f"/{database}" if database else "")


def _redacted(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(a URL that cannot be read)"
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()


class Link:
    """One open connection: a socket to write to, and the replies that are owed on it, in order."""

    __slots__ = ("_keep", "answered", "client_id", "fileno", "outbox", "owed", "reader", "run_id", "socket")

    def __init__(self, connection: AbstractConnection, run_id: str, client_id: int) -> None:
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
        #: Identity of the server's life, '' when it is not told.
        self.run_id = run_id
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
    endpoint: Endpoint, timeout: float, *, kill: Sequence[tuple[str, int]] = (), subscriber: bool = False
) -> Link:
    """Connect, and learn what kind of server it is. Blocks; raises `DialError`.

    ``kill``: connections of ours to end first, as (run_id, client id). What they sent and got no answer
    for would otherwise run when a stopped server goes on: an old acquire after its release, for one.
    """
    connection = endpoint.connection(timeout)
    try:
        connection.connect()
        if subscriber:
            return Link(connection, "", 0)
        if kill:
            # Only in the life in which they were made: after a restart the same numbers are other
            # people's connections.
            (server,) = _exchange(connection, [("INFO", "server")])
            life = _field(server, "run_id")
            _exchange(connection, [("CLIENT", "KILL", "ID", old) for run_id, old in kill if run_id == life])
        replies = _exchange(
            connection,
            [("CLIENT", "ID"), ("INFO", "server"), ("INFO", "replication"), ("INFO", "memory")]
            + [("SCRIPT", "LOAD", script.source) for script in scripts.ALL],
        )
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
    client_id, server, replication, memory = replies[:4]
    if b"NOAUTH" in _text(server):
        connection.disconnect()
        raise DialError(Fault(FaultKind.DENIED, _text(server).decode("utf-8", "replace")))
    if _field(replication, "role") in ("slave", "replica"):
        connection.disconnect()
        raise DialError(Fault(FaultKind.REPLICA, "it is a replica: name its master, or promote it"))
    policy = _field(memory, "maxmemory_policy")
    link = Link(connection, _field(server, "run_id"), client_id if isinstance(client_id, int) else 0)
    if policy and policy != "noeviction":
        _warn_of_eviction(endpoint.label, policy)
    return link


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
