"""The servers that the suite runs on: which there are, which one is the default, and fleets of masters.

``RLOCK_TEST_SERVER`` chooses the default: ``valkey``, ``redis``, ``redis-7``, ``redis-6`` (a flavour, and
the beginning of a version). Unset: the first found.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import UserList
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from rlock.rules.keys import NOTE
from rlock.testing.local.embedded import ServerBinary, find_servers

from . import memory

# The project promises to run on these; the report header names those that this machine lacks.
WANTED = ("valkey", "redis-7", "redis-6")

#: Of all masters and users of this run, and in no text that it shows (canary.py). A new one in each worker.
PASSWORD = secrets.token_hex(24)


class AnyMaster(Protocol):
    """What a test may do to a master, whether it is a process or in memory."""

    @property
    def url(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> object: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def restart(self, empty: bool = True) -> object: ...
    def close(self) -> None: ...


@cache
def servers_found() -> tuple[ServerBinary, ...]:
    return tuple(find_servers())


def label(server: ServerBinary) -> str:
    """``redis-6.2``, ``redis-7.0``, ``valkey-9.1``: what test ids show and ``RLOCK_TEST_SERVER`` matches."""
    return f"{server.flavour}-{'.'.join(server.version.split('.')[:2])}"


def wanted_server() -> str:
    """The environment's choice; empty: none."""
    return os.environ.get("RLOCK_TEST_SERVER", "").strip().lower()


def default_server() -> ServerBinary | None:
    """The server for fleets; None when the environment names one that is not here, or there is none."""
    return next((server for server in servers_found() if _matches(server, wanted_server())), None)


def missing() -> list[str]:
    """The members of WANTED that were not found."""
    return [name for name in WANTED if not any(_matches(server, name) for server in servers_found())]


def _matches(server: ServerBinary, name: str) -> bool:
    flavour, _, version = name.partition("-")
    return server.flavour.startswith(flavour) and f"{server.version}.".startswith(version and f"{version}.")


def raw(url: str, timeout_s: float = 5.0) -> redis.Redis:
    """A plain client for assertions and for scripts: a command is sent once or not at all."""
    if url.startswith(memory.SCHEME):
        return cast(redis.Redis, memory.Raw(url))  # the few commands that contract tests use
    return redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        retry_on_error=[],
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        decode_responses=True,
    )


def answers(url: str) -> bool:
    try:
        return bool(raw(url).ping())
    except (OSError, redis.RedisError):
        return False


def tell(urls: Iterable[str], *words: Any) -> None:
    """Send a command to each of these masters."""
    for url in urls:
        with raw(url) as server:
            server.execute_command(*words)


def acl_user(url: str, name: str, *rules: str) -> str:
    """Make this user on a master, with these rules; the URL with which it logs in."""
    with raw(url) as admin:
        admin.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *rules)
    return re.sub("//(.*@)?", f"//{name}:{PASSWORD}@", url, count=1)


def name_of(url: str) -> str:
    """A master's name for people: without user, password and options."""
    return re.sub("//.*@", "//", url).partition("?")[0]


def left(url: str) -> list[str]:
    """The keys on a master, but for what is to stay: its note, and the last fencing token of each lock."""
    keys = [str(key) for key in raw(url).keys()]  # noqa: SIM118
    return [key for key in keys if key != NOTE and not key.endswith(":fence")]


class Fleet(UserList[AnyMaster]):
    """Some masters in a row; ``fleet(3)`` is the first three of them."""

    @property
    def urls(self) -> list[str]:
        return [master.url for master in self]

    @property
    def labels(self) -> list[str]:
        return [name_of(url) for url in self.urls]

    def __call__(self, count: int) -> Fleet:
        assert 1 <= count <= len(self), f"this fleet has {len(self)} masters, not {count}"
        return self[:count]

    def pause(self) -> None:
        for master in self:
            master.pause()

    def resume(self) -> None:
        for master in self:
            master.resume()

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()


class Janitor:
    """Brings shared masters back to the state of a fresh one: running, awake, empty, no limits, no users."""

    def __init__(self) -> None:
        self._clients: dict[str, redis.Redis] = {}

    def clean(self, master: AnyMaster) -> None:
        master.start() if not master.running else master.resume()
        client = self._clients.setdefault(master.url, raw(master.url))
        try:
            self._wipe(client)
        except redis.ConnectionError:  # restarted since: the pooled connection is dead
            self._wipe(client)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _wipe(self, client: redis.Redis) -> None:
        # The limit goes first: it may be what refuses the rest.
        client.config_set("maxmemory", "0")
        pipe = client.pipeline(transaction=False)
        pipe.execute_command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        pipe.execute_command("CLIENT", "UNPAUSE")
        pipe.flushall()
        pipe.script_flush()
        pipe.execute_command("INFO", "server")
        pipe.execute_command("ACL", "USERS")
        *_, server, users = pipe.execute()
        for user in users:
            if user != "default":
                client.acl_deluser(user)
        # As `rlock init` writes it. Otherwise each test would begin with a wait for the restart guard.
        client.set(NOTE, f"{server['run_id']} 0 100")


def state(pid: int) -> str:
    """The letter that /proc has for the process; X: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def gone(pid: int, within_s: float = 3.0) -> bool:
    """Whether the process ends in time; a zombie of a foreign parent counts as ended."""
    deadline = time.monotonic() + within_s
    while not (ended := state(pid) in "ZX") and time.monotonic() < deadline:
        time.sleep(0.01)
    return ended


def descendants(root: int) -> set[int]:
    """All processes that a process has started, and theirs; without those that have ended."""
    children: dict[int, set[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            letter, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended meanwhile
        if letter != "Z":
            children.setdefault(int(parent), set()).add(int(path.parent.name))
    found: set[int] = set()
    parents = {root}
    while parents:
        parents = {child for parent in parents for child in children.get(parent, ())}
        found |= parents
    return found
