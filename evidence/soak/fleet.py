"""The masters of a soak, the proxies in front of each, and what is known of their memory."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import Any

import redis

import rlock
from rlock.rules.quorum import quorum
from rlock.rules.timing import guard_time
from rlock.testing.local.embedded import Master, ServerBinary, find_server
from tests.faults.proxy import Proxy
from tests.servers import left, raw

#: A master's own age is in whole seconds, and a client may have to make a connection first.
GUARD_SLACK_S = 1.5


class PlaceProxy(Proxy):
    """Between a worker in this place and one master; used from another process."""

    def address(self) -> str:
        """The URL for the worker."""
        return self.url

    def delay(self, seconds: float) -> None:
        """Let a request and its reply take so much longer, half of it each way."""
        self.delay_s = seconds


class Front(BaseManager):
    """The process in front of one master, with a proxy for each place of the crew.

    Otherwise the nemesis would hold up what it does not mean to, by the lock of its interpreter.
    """

    proxy: Callable[[str], PlaceProxy]

    def __init__(self, url: str, places: int) -> None:
        super().__init__(ctx=get_context("spawn"))
        self.start(_die_with_parent)
        self.proxies = [self.proxy(url) for _ in range(places)]


Front.register("proxy", PlaceProxy)


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Fleet(contextlib.AbstractContextManager["Fleet"]):
    """Thread-safe if each master is changed under a `claim` only."""

    def __init__(self, count: int, ttl: float, server: ServerBinary | None, places: int) -> None:
        self.ttl = ttl
        server = server or find_server()
        self.server = str(server)
        self._ends = contextlib.ExitStack()
        try:
            # The first one forgets nothing, unless its disk is lost.
            kinds = [("--appendonly", "yes", "--appendfsync", "always"), *[()] * (count - 1)]
            self.masters = [self._ends.enter_context(Master(server, args=kind)) for kind in kinds]
            # Before a run nothing is locked: what `rlock init` says, for the max_ttl of the run.
            self.vouch()
            fronts = [Front(url, places) for url in self.urls]
            for front in fronts:
                self._ends.callback(front.shutdown)
            #: By master and by the place of a worker.
            self.proxies: list[list[PlaceProxy]] = [front.proxies for front in fronts]
        except BaseException:
            self._ends.close()
            raise
        self._claims = [threading.Lock() for _ in self.masters]
        #: From which instant (time.monotonic) on the votes of each master count.
        self._grown_at = [0.0 for _ in self.masters]
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self.masters)

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def urls(self) -> list[str]:
        return [master.url for master in self.masters]

    def proxied(self, place: int) -> list[str]:
        """The same masters through the proxies of a place."""
        return [proxies[place].address() for proxies in self.proxies]

    def vouch(self) -> None:
        with rlock.Client(self.urls, ttl=self.ttl, max_ttl=self.ttl) as client:
            wrong = {master: why for master, why in client.init().items() if why}
        if wrong:
            raise RuntimeError(f"not to be vouched for: {wrong}")

    @contextlib.contextmanager
    def claim(self, *masters: int) -> Iterator[list[int]]:
        mine = [i for i in masters if self._claims[i].acquire(blocking=False)]
        try:
            yield mine
        finally:
            for i in mine:
                self._claims[i].release()

    def kill(self, i: int) -> None:
        """It has no vote until `await_guard`."""
        self.masters[i].kill()
        with self._mutex:
            self._grown_at[i] = float("inf")

    def start(self, i: int, *, disk_lost: bool = False) -> None:
        """Start a killed master: empty, but for a durable one that has its disk; young in any case."""
        self.masters[i].restart(empty=disk_lost)
        self.await_guard(i)

    def flush(self, i: int) -> bool:
        self.await_guard(i)
        return self.command(i, "FLUSHALL")

    def command(self, i: int, *words: Any) -> bool:
        """A command of the nemesis; whether it was carried out."""
        with (
            contextlib.suppress(redis.RedisError, OSError),
            contextlib.closing(raw(self.urls[i], 1.0)) as client,
        ):
            client.execute_command(*words)
            return True
        return False

    def await_guard(self, i: int) -> None:
        """A master has lost its memory just now: its votes count when the restart guard is over."""
        with self._mutex:
            self._grown_at[i] = time.monotonic() + guard_time(self.ttl) + GUARD_SLACK_S

    def quorum_at(self) -> float:
        """From when on (time.monotonic) a quorum has votes that count."""
        with self._mutex:
            return sorted(self._grown_at)[quorum(len(self)) - 1]

    def mend(self) -> None:
        """Everything runs and lets everything through."""
        for proxy in itertools.chain(*self.proxies):
            proxy.mend()
        for i, master in enumerate(self.masters):
            if not master.running:
                self.start(i)
            with contextlib.suppress(Exception):
                master.resume()
            self.command(i, "CLIENT", "UNPAUSE")

    def left(self, longest_s: float) -> list[str]:
        """Keys and channels that are not meant to stay, and keys that stay longer than so many seconds."""
        found: set[str] = set()
        for url in self.urls:
            with contextlib.closing(raw(url, 5.0)) as client:
                lives: dict[str, Any] = {key: client.pttl(key) for key in left(url)}
                found |= {f"key {key}" for key, ms in lives.items() if ms == -1 or ms > longest_s * 1000}
                channels: Any = client.pubsub_channels()
                found |= {f"channel {channel}" for channel in channels}
        return sorted(found)
