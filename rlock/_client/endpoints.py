"""The masters' addresses, and connections to them.

redis-py makes the connections, with its own TLS, users and passwords, unix sockets and credential providers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from inspect import signature
from typing import Any, ClassVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff

from ..errors import OptionsError

#: Arguments of redis-py's pools: a single connection would refuse them.
_POOL_ARGUMENTS = (
    *("maint_", "oss_cluster_", "orig_", "maintenance_", "event_dispatcher", "himport_"),
    *("max_connections", "timeout", "queue_class", "pool_class", "cache"),
)

#: The host and port of a URL, an IPv6 address in brackets.
_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]\s]+)(:[0-9]*)?")

#: After some 11 s the kernel notices a peer that has vanished, without a command.
_KEEPALIVE = {
    getattr(socket, option): value
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
    if hasattr(socket, option)
}


@cache
def _quiet(connection_class: type[Any]) -> dict[str, Any]:
    """Arguments without which redis-py announces itself, with one more round trip for each announcement."""
    known = signature(connection_class.__init__).parameters
    arguments: dict[str, Any] = {}
    if "driver_info" in known:
        arguments["driver_info"] = None
    elif "lib_name" in known:
        arguments |= {"lib_name": None, "lib_version": None}
    if "maint_notifications_config" in known:
        from redis.maint_notifications import MaintNotificationsConfig

        arguments["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    return arguments


class Endpoint:
    """One master's address. Makes connections; holds none."""

    #: The module with the classes of redis-py that block, or of those for asyncio.
    redis_py: ClassVar[Any]

    def __init__(self, master: object) -> None:
        if isinstance(master, str):
            self._class, self._arguments = _from_url(self.redis_py, master)
        else:
            self._class, self._arguments = _from_client(self.redis_py, master)
        #: Pickled, to make the same endpoint in another process.
        self.source = master
        if isinstance(master, str):
            try:
                self.connection(1.0)
            except (TypeError, ValueError, redis.RedisError) as error:
                # In `?password=a&b` the & turns the rest of the password into an option.
                secret = "pass" in master.lower()
                why = "write & in a password as %26" if secret else error
                raise OptionsError(f"{self.label} has an option that means nothing: {why}") from None

    @cached_property
    def label(self) -> str:
        """Its name for people, without user and password."""
        arguments = self._arguments
        if "path" in arguments:
            return f"unix://{arguments['path']}"
        scheme = "rediss" if issubclass(self._class, self.redis_py.SSLConnection) else "redis"
        host, database = arguments.get("host", "localhost"), arguments.get("db") or 0
        return f"{scheme}://{host}:{arguments.get('port', 6379)}" + (f"/{database}" if database else "")

    @property
    def place(self) -> tuple[str, ...]:
        """The same for two names of one server; a database number does not make another master."""
        if "path" in self._arguments:
            return ("unix", str(self._arguments["path"]))
        host = str(self._arguments.get("host", "localhost")).lower()
        return (host, str(self._arguments.get("port", 6379)))

    def connection(self, timeout: float, connect_timeout: float | None = None) -> Any:
        """A connection that is not open yet.

        ``timeout``: seconds for each step of opening it; ``connect_timeout``: for the first step, if not the
        same.
        """
        arguments = {
            **self._arguments,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout if connect_timeout is None else connect_timeout,
            # By default redis-py retries ten times, and so would silently repeat a script.
            "retry": self.redis_py.retry.Retry(NoBackoff(), 0),
            "retry_on_error": [],
            "retry_on_timeout": False,
            "health_check_interval": 0,
            # With RESP2 nothing but replies in order arrives; RESP3 has push messages in between.
            "protocol": 2,
            "decode_responses": False,
            **_quiet(self.redis_py.connection.AbstractConnection),
        }
        if "path" not in arguments:
            arguments.setdefault("socket_keepalive", True)
            if not isinstance(arguments.get("socket_keepalive_options"), dict):
                arguments["socket_keepalive_options"] = _KEEPALIVE
        return self._class(**arguments)


def endpoints(masters: object, kind: type[Endpoint]) -> list[Endpoint]:
    """Checked masters: at least one, each a URL, a client of redis-py or an endpoint, no server twice."""
    hint = _hint(kind.redis_py)
    if isinstance(masters, str):
        # One string may hold several URLs, as RLOCK_MASTERS does.
        masters = [url for url in re.split(r"[,\s]+", masters) if url]
    elif isinstance(masters, (kind.redis_py.Redis, Endpoint)):
        masters = [masters]
    if not isinstance(masters, Sequence):
        kind_of = f"{type(masters).__module__}.{type(masters).__qualname__}".removeprefix("builtins.")
        raise OptionsError(f"masters must be a list of URLs, not {kind_of}: {hint}")
    if not masters:
        raise OptionsError(f"at least one master is needed, and the list is empty: {hint}")
    # All URLs before the first endpoint: a comma in a password splits a URL, and its first part may be valid.
    for number, url in enumerate(masters, 1):
        if isinstance(url, str) and (fault := _malformed(kind.redis_py, url)) is not None:
            raise OptionsError(f"URL {number} of {len(masters)} {fault}: {hint}")
    found: dict[tuple[str, ...], Endpoint] = {}
    for master in masters:
        endpoint = master if isinstance(master, Endpoint) else kind(master)
        if endpoint.place in found:
            raise OptionsError(
                f"{endpoint.label} is in the list twice: a majority of one server is none, "
                f"each master must be a server of its own"
            )
        found[endpoint.place] = endpoint
    return list(found.values())


def _hint(redis_py: Any) -> str:
    """The forms of a master, for error texts."""
    client = f"{redis_py.__name__}.Redis"
    return f"use redis://host:port, rediss://host:port (TLS), unix:///path, or a ready {client} object"


def same_server(one: Endpoint, other: Endpoint, run_id: str) -> str:
    """The error text for two names of one server."""
    return (
        f"{one.label} and {other.label} are the same server (run_id {run_id}): a majority of one server is "
        f"none, each master must be a server of its own"
    )


def _plain(url: str) -> str:
    """The URL with the scheme that redis-py knows."""
    return url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1)


def _malformed(redis_py: Any, url: str) -> str | None:
    """The fault of a URL, or None. Repeats no part of the URL.

    A password that holds `/`, `?`, `#` or a comma puts parts of itself in the place of a host or an option.
    """
    plain = _plain(url)
    scheme, _, rest = plain.partition("://")
    if scheme not in ("redis", "rediss", "unix"):
        return "has another scheme, or none"
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    path, _, query = rest[len(place) :].partition("?")
    _, user, host = place.rpartition("@")
    # A socket's path may hold an @, unless that may be the end of a password.
    unix = scheme == "unix"
    if "#" in path + query or "@" in (query if unix and not user else path + query):
        return "has a # or an @ behind the host (in a password write / as %2F, ? as %3F, # as %23, @ as %40)"
    if unix and (host or not path):
        return "names no path, or a host in front of it"
    if not unix and (not host or host.startswith(":")):
        return "names no host"
    if not unix and not _HOST.fullmatch(host):
        return "has no host and port that can be read"
    if not unix and not re.fullmatch("/?[0-9]*", path):
        return "has a path that is not the number of a database"
    try:
        urlsplit(plain.encode().decode())
    except ValueError:  # the text of this error repeats a part of the URL
        return "has characters that no URL can have (in a password write each as %XX)"
    try:
        redis_py.connection.parse_url(plain)
    except ValueError as error:
        return f"cannot be used ({error})"
    return None


def _from_url(redis_py: Any, url: str) -> tuple[type[Any], dict[str, Any]]:
    arguments = dict(redis_py.connection.parse_url(_plain(url)))
    connection_class = arguments.pop("connection_class", redis_py.Connection)
    if issubclass(connection_class, redis_py.SSLConnection):
        # Otherwise redis-py before 6 accepts a certificate of another host. redis-py 6.0 checks the name also
        # without a checked certificate, which Python refuses.
        arguments.setdefault("ssl_check_hostname", arguments.get("ssl_cert_reqs") != "none")
    return connection_class, _without_pool(arguments)


def _without_pool(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if not key.startswith(_POOL_ARGUMENTS)}


def _from_client(redis_py: Any, client: object) -> tuple[type[Any], dict[str, Any]]:
    if not isinstance(client, redis_py.Redis):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise OptionsError(f"a {kind} is no master: {_hint(redis_py)}")
    pool = client.connection_pool
    if hasattr(pool, "sentinel_manager"):
        raise OptionsError(
            "a Sentinel client is no independent master: a failover forgets the last leases; "
            "name each master by its own address"
        )
    return pool.connection_class, _without_pool(pool.connection_kwargs)
