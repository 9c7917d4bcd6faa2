"""Scenes for the fault tests: masters and their proxies, clients, waiters and processes."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock.testing.local.embedded import ServerBinary

from ..fixtures import FreshMasters as FreshMasters
from ..lock.conftest import Child, MakeClient, StartChild, in_background
from ..lock.conftest import child as child  # a fixture
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from . import clock
from .checks import usable
from .clock import Clock
from .proxy import Proxy

#: Masters that were started a moment ago vote at once: most tests here start their own.
GUARD_OFF: dict[str, Any] = {"restart_guard": 0}
#: The longest that a waiter sleeps before it polls again, told or not, with some room for two busy cores.
POLL_S = 3.0

_PRELUDE = f"""\
import os, signal, sys, time
import rlock
client = rlock.Client(sys.argv[1].split(), float(sys.argv[2]), **{GUARD_OFF!r})
lock = client.lock("x")
"""


class Scene:
    """Masters and all that uses them: it ends with the test."""

    def __init__(self, fleet: Fleet, make_client: MakeClient, child: StartChild, stack: ExitStack) -> None:
        self.fleet, self.urls = fleet, fleet.urls
        self.proxies: list[Proxy] = []  # in front of the last masters, behind a call of `proxied`
        self._make_client, self._child, self._stack = make_client, child, stack

    def proxied(self, count: int) -> list[str]:
        """The URLs, in which proxies stand for the last ``count`` masters."""
        self.proxies = [Proxy(url) for url in self.urls[-count:]]
        for proxy in self.proxies:
            self._stack.callback(proxy.close)
        return [*self.urls[:-count], *(proxy.url for proxy in self.proxies)]

    def client(self, ttl: float = 3.0, urls: Sequence[str] = (), **options: Any) -> rlock.Client:
        return self._make_client([*urls] or self.urls, ttl, **{**GUARD_OFF, **options})

    def clients(self, ttl: float = 3.0, urls: Sequence[str] = ()) -> tuple[rlock.Client, rlock.Client]:
        """Two that are connected."""
        one, other = self.client(ttl, urls), self.client(ttl, urls)
        usable(one)
        usable(other)
        return one, other

    def held(
        self, ttl: float = 3.0, urls: Sequence[str] = (), **options: Any
    ) -> tuple[rlock.RLock, rlock.Client]:
        """The lock "x" of a client that holds it, and another client."""
        holder, other = self.clients(ttl, urls)
        lock = holder.lock("x", **options)
        assert lock.acquire()
        return lock, other

    def process(self, program: str, ttl: float = 3.0) -> Child:
        """A process with ``client`` and ``lock``, the lock "x"."""
        return self._child(_PRELUDE + textwrap.dedent(program), " ".join(self.urls), str(ttl))


Scenes = Callable[[Fleet], Scene]


@pytest.fixture
def scenes(make_client: MakeClient, child: StartChild) -> Iterator[Scenes]:
    with ExitStack() as stack:
        yield lambda fleet: Scene(fleet, make_client, child, stack)


@pytest.fixture
def scene(scenes: Scenes, masters3: Fleet) -> Scene:
    return scenes(masters3)


@pytest.fixture
def fresh(scenes: Scenes, fresh_masters: FreshMasters) -> Scene:
    """On three masters of the test's own."""
    return scenes(fresh_masters(3))


@pytest.fixture(scope="session")
def _clock_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library, reason = clock.build(tmp_path_factory.mktemp("clock"))
    if reason:
        pytest.skip(reason)
    return library


Clocked = Callable[[int], tuple[Scene, list[Clock]]]


@pytest.fixture
def clocked(
    scenes: Scenes, fresh_masters: FreshMasters, server: ServerBinary, _clock_library: Path, tmp_path: Path
) -> Clocked:
    """``clocked(3)``: three masters, and the wall clock of each."""

    def make(count: int) -> tuple[Scene, list[Clock]]:
        clocks = []
        for i in range(count):
            folder = tmp_path / f"clock-{i}"
            folder.mkdir()
            clocks.append(Clock(_clock_library, folder))
        masters = [fresh_masters(1, binary=one.binary(server))[0] for one in clocks]
        return scenes(Fleet(masters)), clocks

    return make


class Waiter:
    """A thread that waits for a lock, and gives it back as soon as it has it."""

    def __init__(self, client: rlock.Client, timeout: float = -1, name: str = "x", **options: Any) -> None:
        self._lock, self._timeout = client.lock(name, **options), timeout
        self.got_at = 0.0  # when it had the lock
        self._outcome = in_background(self._take)

    def _take(self) -> bool:
        got = self._lock.acquire(timeout=self._timeout)
        self.got_at = time.monotonic()
        if got:
            self._lock.release()
        return got

    @property
    def done(self) -> bool:
        return self._outcome.done()

    def got(self, within: float = 30.0) -> bool:
        """What its ``acquire`` returned, or the exception of it or of its release."""
        return self._outcome.result(within)
