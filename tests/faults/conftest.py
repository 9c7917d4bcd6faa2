"""Clients, waiters and bad weather for the fault tests."""

from __future__ import annotations

import contextlib
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock.testing.local.embedded import ServerBinary

from ..lock.conftest import Child, eventually, in_background
from ..lock.conftest import child as child  # a fixture
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, raw
from . import clock
from .clock import Clock
from .proxy import Proxy

FreshMasters = Callable[..., Fleet]
ClientFor = Callable[..., rlock.Client]
Proxies = Callable[..., list[Proxy]]
#: program, urls, ttl
Process = Callable[..., Child]

#: Masters that were started a moment ago vote at once: most tests here start their own.
GUARD_OFF: dict[str, Any] = {"restart_guard": 0}
#: The longest that a waiter sleeps before it looks again, told or not, with some room for two busy cores.
LOOK_S = 3.0

_PRELUDE = f"""\
import os, signal, sys, time
import rlock
client = rlock.Client(sys.argv[1].split(), float(sys.argv[2]), **{GUARD_OFF!r})
lock = client.lock("x")
"""

#: What a process says of its hold, and of the end of it.
TELL = """\
print(f"{lock.is_owned()} {lock.remaining():g} {lock.lost.is_set()}")
try:
    lock.check()
    print("checked")
except rlock.LeaseLostError as error:
    print("check:", error.reason)
try:
    lock.release()
    print("released")
except rlock.LeaseLostError as error:
    print("release:", error.reason)
lock.acquire()
lock.release()
print("usable")
"""


@pytest.fixture
def client_for(make_client: ClientFor) -> ClientFor:
    """``client_for(urls, ttl, **options)``: clients that are closed with the test."""
    return lambda urls, ttl=3.0, **options: make_client(urls, ttl, **{**GUARD_OFF, **options})


@pytest.fixture
def process(child: Callable[..., Child]) -> Process:
    """``process(program, urls, ttl)``: a process with ``client`` and ``lock``, the lock "x"."""

    def start(program: str, urls: Iterable[str], ttl: float = 3.0) -> Child:
        return child(_PRELUDE + textwrap.dedent(program), " ".join(urls), str(ttl))

    return start


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """``proxies(urls)``: one in front of each."""
    made: list[Proxy] = []

    def make(urls: Iterable[str]) -> list[Proxy]:
        fresh = [Proxy(url) for url in urls]
        made.extend(fresh)
        return fresh

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture(scope="session")
def _clock_library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return clock.build(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def clocked(
    fresh_masters: FreshMasters, server: ServerBinary, _clock_library: tuple[Path, str], tmp_path: Path
) -> Callable[[int], tuple[Fleet, list[Clock]]]:
    """``clocked(3)``: three masters, and the wall clock of each."""
    library, reason = _clock_library
    if reason:
        pytest.skip(reason)

    def make(count: int) -> tuple[Fleet, list[Clock]]:
        clocks = []
        for i in range(count):
            folder = tmp_path / f"clock-{i}"
            folder.mkdir()
            clocks.append(Clock(library, folder))
        fleet = [fresh_masters(1, binary=one.binary(server))[0] for one in clocks]
        return Fleet(fleet), clocks

    return make


class Waiter:
    """A thread that waits for a lock, and gives it back as soon as it has it."""

    def __init__(self, client: rlock.Client, timeout: float = -1, name: str = "x", **options: Any) -> None:
        self._lock, self._timeout = client.lock(name, **options), timeout
        #: When it had the lock.
        self.got_at = 0.0
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


def refuse_threads(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """No thread of these names can be started, or none at all."""
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if not names or thread.name in names:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)


def waiting(asked: rlock.Client, count: int = 1) -> None:
    """Return when so many stand in the queue of "x"."""
    assert eventually(lambda: asked.status("x").queue_length >= count), "nobody waits"


def excluded(client: rlock.Client) -> None:
    """The lock is somebody else's, and is known to be: contention, not an error."""
    assert client.lock("x").acquire(blocking=False) is False


def usable(client: rlock.Client, within: float = 5.0, name: str = "x") -> None:
    """The lock can be had and given back."""
    lock = client.lock(name)
    assert lock.acquire(timeout=within), f"not to be had within {within} s"
    lock.release()


@contextlib.contextmanager
def unharmed(holder: rlock.Client, other: rlock.Client, seconds: float = 1.7) -> Iterator[None]:
    """The holder keeps its lock, and the other one stays out, for longer than a lease after the body."""
    usable(other)
    with holder.lock("x") as lock:
        yield
        with within(0.5):
            excluded(other)
        time.sleep(seconds)
        lock.check()
        with within(0.5):
            excluded(other)
    with within(1.0):
        usable(other)


def holders(urls: Iterable[str], name: str = "x") -> list[str | None]:
    """Who has the lock on each master."""
    found: list[str | None] = []
    for url in urls:
        with contextlib.closing(raw(url)) as server:
            found.append(next(iter(dict(server.hgetall(name))), None))  # type: ignore[arg-type]
    return found


def everywhere(urls: Sequence[str], name: str = "x") -> bool:
    """Whether one owner has it on all of these masters; waits a little for the last answers."""
    return bool(eventually(lambda: len(set(holders(urls, name))) == 1 and holders(urls, name)[0], 3.0))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is inside takes no longer."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"took {took:.2f} s, more than {seconds:g} s"
