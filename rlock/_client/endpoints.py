"""The masters' addresses, and connections to them.

redis-py or valkey-py makes the connections, with its TLS, passwords, unix sockets and credential providers.
"""

import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar
from urllib.parse import urlsplit

from ..errors import OptionsError
from ..events import log
from ..procedures.port import WaitGenerator
from ..rules.options import split_urls
from . import sentinel
from .handshake import ConnectOptions, connect
from .libraries import Parser, library_of, secrets_of

#: Arguments that are objects: no URL can give them.
_OBJECTS = (
    *("connection_class", "credential_provider", "redis_connect_func", "parser_class", "encoder_class"),
    *("command_packer", "retry", "retry_on_error", "socket_keepalive_options", "connection_pool"),
)
#: Arguments of the libraries' pools: a single connection would refuse them.
_POOL_ARGUMENTS = (
    *("maint_", "oss_cluster_", "orig_", "maintenance_", "event_dispatcher", "himport_"),
    *("max_connections", "timeout", "queue_class", "pool_class", "cache", "client_cache"),
)

_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]\s]+)(:[0-9]*)?")

_URLS = f"redis:// or valkey://host:port, rediss:// or valkeys:// (TLS), unix:///path, {sentinel.FORM}"
ONE_SERVER = "a majority of one server is none, each master must be a server of its own"

#: The kernel notices a peer that has vanished after some 11 s, also without a command. TCP_USER_TIMEOUT does
#: so for bytes without an acknowledgement: Linux would send them again for a quarter of an hour.
_PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}


@cache
def _keepalive() -> dict[int, int]:
    """The options that the kernel takes: with another one no connection could be made."""
    taken: dict[int, int] = {}
    with socket.socket() as tried:
        for option, value in _PROBES.items():
            with suppress(AttributeError, OSError):
                tried.setsockopt(socket.IPPROTO_TCP, number := getattr(socket, option), value)
                taken[number] = value
    return taken


@cache
def _quiet(connection_class: type[Any]) -> dict[str, Any]:
    """Arguments without which a library announces itself, with one more round trip for each announcement."""
    known = signature(connection_class.__init__).parameters
    arguments: dict[str, Any] = {}
    if "driver_info" in known:
        arguments["driver_info"] = None
    elif "lib_name" in known:
        arguments |= {"lib_name": None, "lib_version": None}
    if "maint_notifications_config" in known:
        module = import_module(f"{connection_class.__module__.partition('.')[0]}.maint_notifications")
        arguments["maint_notifications_config"] = module.MaintNotificationsConfig(enabled=False)
    return arguments


@dataclass(frozen=True)
class Group:
    """A primary and its replicas as one master, for a client that is made already.

    ``master``: a ready client of the primary's address; behind Sentinels it is a URL. ``replicas``: how many
    the group has. All must acknowledge a vote before it counts.
    """

    master: Any = field(repr=False)  # older libraries show the password in the text of a client
    replicas: int


class Endpoint:
    #: The part of a library that makes its connections: ".asyncio", or the one that blocks.
    part: ClassVar[str] = ""
    service_type: ClassVar[type[sentinel.Service]] = sentinel.Service
    parser_type: ClassVar[type[Parser]] = Parser
    connection_type: ClassVar[type[Any]]

    replicas: int | None = None  # how many replicas have to acknowledge a vote; None: it is no group
    service: sentinel.Service | None = None  # the Sentinels that know its address
    tls = False

    def __init__(self, master: object) -> None:
        client: Any = master.master if isinstance(master, Group) else master
        self.library = library_of(client, self.part)
        if isinstance(master, Group):
            self.replicas = _checked(master.replicas)
        make = self._from_url if isinstance(master, str) else self._from_client
        self._class, self._arguments = make(client)
        self.tls = issubclass(self._class, self.library.SSLConnection)
        self.source = master  # pickled, to make the same endpoint in another process
        if isinstance(master, str):
            try:
                self.connection(1.0)
            except (TypeError, ValueError, self.library.RedisError) as error:
                # In `?password=a&b` the & turns the rest of the password into an option.
                secret = "pass" in master.lower()
                why = "write & in a password as %26" if secret else str(error).rpartition("() ")[2]
                raise OptionsError(f"{self.label} has an option to correct or remove: {why}") from None

    def _from_url(self, url: str) -> tuple[type[Any], dict[str, Any]]:
        group = sentinel.take_apart(url) if sentinel.is_sentinel(url) else None
        plain = _plain(url if group is None else group.server)
        arguments = dict(self.library.connection.parse_url(plain))
        connection_class = arguments.pop("connection_class", self.library.Connection)
        if issubclass(connection_class, self.library.SSLConnection):
            # Otherwise redis-py before 6 accepts a certificate of another host. redis-py 6.0 checks the name
            # also without a checked certificate, which Python refuses.
            arguments.setdefault("ssl_check_hostname", arguments.get("ssl_cert_reqs") != "none")
        replicas = arguments.pop("replicas", None)
        if replicas is not None:
            self.replicas = _checked(replicas)
        if group is not None:
            asked = [type(self)(one) for one in group.sentinels]
            self.service = self.service_type(group.service, asked, self.library.ConnectionError)
            tls = "SSL" if issubclass(connection_class, self.library.SSLConnection) else ""
            connection_class = getattr(self.library.sentinel, f"SentinelManaged{tls}Connection")
        return connection_class, _without_pool(arguments)

    def _from_client(self, client: Any) -> tuple[type[Any], dict[str, Any]]:
        if not isinstance(client, self.library.Redis):
            kind = f"{type(client).__module__}.{type(client).__qualname__}"
            raise OptionsError(f"a {kind} is no master: {_hint(self.library)}")
        pool = client.connection_pool
        if hasattr(pool, "sentinel_manager"):
            raise OptionsError(
                "a failover forgets the last leases unless the replicas acknowledge them: "
                f"name the Sentinels and the number of replicas in a URL, as {sentinel.FORM}"
            )
        return pool.connection_class, _without_pool(pool.connection_kwargs)

    @cached_property
    def label(self) -> str:
        """Its name for people, without user and password."""
        arguments = self._arguments
        scheme = "rediss" if self.tls else "redis"
        if self.service is not None:
            hosts = ",".join(":".join(one.place) for one in self.service.sentinels)
            return f"{scheme}+sentinel://{hosts}/{self.service.service_name}"
        if "path" in arguments:
            return f"unix://{arguments['path']}"
        host, database = arguments.get("host", "localhost"), arguments.get("db") or 0
        return f"{scheme}://{host}:{arguments.get('port', 6379)}" + (f"/{database}" if database else "")

    @property
    def place(self) -> tuple[str, ...]:
        """The same for two names of one server; a database number does not make another master."""
        if self.service is not None:
            return ("sentinel", self.service.service_name, *min(one.place for one in self.service.sentinels))
        if "path" in self._arguments:
            return ("unix", str(self._arguments["path"]))
        host = str(self._arguments.get("host", "localhost")).lower()
        return (host, str(self._arguments.get("port", 6379)))

    def connect(self, options: ConnectOptions) -> WaitGenerator[Any]:
        return connect(self, options._replace(replicas=self.replicas))

    def abort(self, made: Any) -> None:
        """Close a connection of the library. Waits for nothing."""
        made.disconnect()

    def connection(self, timeout: float, connect_timeout: float | None = None) -> Any:
        """A connection that is not open yet. ``connect_timeout``: for the first step."""
        arguments = {
            **self._arguments,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout if connect_timeout is None else connect_timeout,
            # By default redis-py retries ten times, and so would silently repeat a script.
            "retry": self.library.retry.Retry(library_of(None).backoff.NoBackoff(), 0),
            "retry_on_error": [],
            "retry_on_timeout": False,
            "health_check_interval": 0,
            # With RESP2 nothing but replies in order arrives; RESP3 has push messages in between.
            "protocol": 2,
            "decode_responses": False,
            **_quiet(self.library.connection.AbstractConnection),
        }
        if self.service is not None:
            arguments["connection_pool"] = self.service
        if "path" not in arguments:
            arguments.setdefault("socket_keepalive", True)
            if not isinstance(arguments.get("socket_keepalive_options"), dict):
                arguments["socket_keepalive_options"] = _keepalive()
        made: Any = self._class(**arguments)
        made.secrets = secrets_of(arguments)
        made._parser = self.parser_type(made, timeout)
        return made


def endpoints(masters: object, kind: type[Endpoint]) -> list[Endpoint]:
    library = library_of(masters, kind.part)
    hint = _hint(library)
    if isinstance(masters, str):
        masters = split_urls(masters)
    elif isinstance(masters, (library.Redis, Endpoint, Group)):
        masters = [masters]
    if not isinstance(masters, Sequence):
        kind_of = f"{type(masters).__module__}.{type(masters).__qualname__}".removeprefix("builtins.")
        raise OptionsError(f"masters must be a list of URLs, not {kind_of}: {hint}")
    if not masters:
        raise OptionsError(f"at least one master is needed, and the list is empty: {hint}")
    # All URLs before the first endpoint: a comma in a password splits a URL, and its first part may be valid.
    for number, url in enumerate(masters, 1):
        if isinstance(url, str) and (fault := _malformed(library, url)) is not None:
            raise OptionsError(f"URL {number} of {len(masters)} {fault}: use {_URLS}")
    found: dict[tuple[str, ...], Endpoint] = {}
    for master in masters:
        endpoint = master if isinstance(master, Endpoint) else kind(master)
        if endpoint.place in found:
            raise OptionsError(f"{endpoint.label} is in the list twice: {ONE_SERVER}")
        found[endpoint.place] = endpoint
    return list(found.values())


def _hint(library: Any) -> str:
    return f"use {_URLS}, or a ready {library.__name__}.{library.Redis.__name__} object"


def _checked(replicas: object) -> int:
    """The number of replicas of a group. With 0 nothing keeps the old primary from granting: a warning."""
    number = int(str(replicas)) if re.fullmatch("[0-9]{1,2}", str(replicas)) else -1
    if number < 0:
        raise OptionsError("replicas must be the number of replicas that a group has, from 1 on")
    if number == 0:
        log.warning("replicas=0: after a failover two clients can hold one lock at the same time")
    return number


def _plain(url: str) -> str:
    url = f"redis://{url}" if re.fullmatch(r"[\w.-]+:[0-9]+", url) else url
    return url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1)


def _malformed(library: Any, url: str) -> str | None:
    """The fault of a URL, or None. Repeats no part of the URL.

    A password that holds `/`, `?`, `#` or a comma puts parts of itself in the place of a host or an option.
    """
    unreadable = "has characters that no URL can have (in a password write each as %XX)"
    if not url.isprintable():
        return unreadable
    if sentinel.is_sentinel(url):
        group = sentinel.take_apart(url)
        if group is None:
            return f"cannot be read: write {sentinel.FORM}"
        if "replicas=" not in url:
            return "does not say how many replicas the group has: add ?replicas=1, or how many there are"
        faults = (_malformed(library, each) for each in (group.server, *group.sentinels))
        return next((fault for fault in faults if fault is not None), None)
    if re.search(r";\s*\w+://", url):
        return "has a ; in front of another URL: separate URLs by commas"
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
        urlsplit(plain)
    except ValueError:  # the text of this error repeats a part of the URL
        return unreadable
    try:
        options = library.connection.parse_url(plain)
    except ValueError as error:
        return f"cannot be used ({error})"
    if not f"{options.get('host')}{options.get('path')}".isprintable():  # written as %XX
        return unreadable
    objects = [key for key in _OBJECTS if isinstance(options.get(key), str)]
    return f"has the option {objects[0]}, which no text can be" if objects else None


def _without_pool(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if not key.startswith(_POOL_ARGUMENTS)}
