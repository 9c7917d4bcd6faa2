"""Masters: where they are, and how connections to them are made.

redis-py makes them, so TLS, users and passwords, unix sockets and credential providers are its own.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, parse_url
from redis.retry import Retry

from ..errors import OptionsError

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

    def connection(self, timeout: float, connect_timeout: float | None = None) -> AbstractConnection:
        """A connection that is not open yet. ``timeout``: seconds for each step of opening it.

        ``connect_timeout``: for the first one, if not the same.
        """
        arguments = {
            **self._arguments,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout if connect_timeout is None else connect_timeout,
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


def same_server(one: Endpoint, other: Endpoint, run_id: str) -> str:
    """The error for two names of one server."""
    return (
        f"{one.label} and {other.label} are the same server (run_id {run_id}): a majority of one server is "
        f"none, each master must be a server of its own"
    )


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
