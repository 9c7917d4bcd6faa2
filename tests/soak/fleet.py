"""The masters of a soak, a proxy in front of each, and what is known of their memory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import redis

import rlock
from rlock.program.embedded import Masters, find_server
from rlock.rules.quorum import quorum
from rlock.rules.timing import guard_time

from ..faults.proxy import Proxy
from ..servers import left, raw

if TYPE_CHECKING:
    from typing_extensions import Self

#: A master's own age is in whole seconds, and a client may have to make a connection first.
GUARD_SLACK_S = 1.5


class Fleet:
    """Thread-safe as far as whoever changes a master has it to himself: see `claim`."""

    def __init__(self, count: int, ttl: float) -> None:
        self.ttl = ttl
        server = find_server()
        # Redis 7 wants to be asked for DEBUG; older ones do not know the option.
        known = server.flavour != "redis" or int(server.version.partition(".")[0]) >= 7
        self.masters = Masters(count, server, args=("--enable-debug-command", "yes") if known else ())
        try:
            # Before a run nothing is locked: what `rlock init` says, for the max_ttl of the run.
            self.vouch()
            self.proxies = [Proxy(url) for url in self.masters.urls]
        except BaseException:
            self.masters.close()
            raise
        self.server = str(server)
        self._claims = [threading.Lock() for _ in self.masters]
        #: From which instant (time.monotonic) on the votes of each master count.
        self._grown_at = [0.0 for _ in self.masters]
        self._flushed_at = [-1e9 for _ in self.masters]
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self.masters)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for proxy in self.proxies:
            proxy.close()
        self.masters.close()

    @property
    def urls(self) -> list[str]:
        """Straight to the masters."""
        return self.masters.urls

    @property
    def proxied(self) -> list[str]:
        """The same masters through the proxies."""
        return [proxy.url for proxy in self.proxies]

    def vouch(self) -> None:
        """State that nothing is locked."""
        with rlock.Client(self.masters.urls, ttl=self.ttl, max_ttl=self.ttl) as client:
            wrong = {master: why for master, why in client.init().items() if why}
        if wrong:
            raise RuntimeError(f"not to be vouched for: {wrong}")

    @contextlib.contextmanager
    def claim(self, *masters: int) -> Iterator[list[int]]:
        """Those of ``masters`` that nobody is busy with, for the block."""
        mine = [i for i in masters if self._claims[i].acquire(blocking=False)]
        try:
            yield mine
        finally:
            for i in mine:
                self._claims[i].release()

    def kill(self, i: int) -> None:
        """End a master, with its memory."""
        self.masters[i].kill()
        with self._mutex:
            self._grown_at[i] = float("inf")

    def start(self, i: int) -> None:
        """Start a killed master: empty, and without a vote for a while."""
        self.masters[i].start()
        with self._mutex:
            self._grown_at[i] = time.monotonic() + guard_time(self.ttl) + GUARD_SLACK_S

    def flush(self, i: int) -> bool:
        """FLUSHALL, unless the promise ends there: a quorum within max_ttl. Whether it was done."""
        with self._mutex:
            now = time.monotonic()
            recent = [at for j, at in enumerate(self._flushed_at) if j != i and now - at < 2 * self.ttl + 3]
            if len(recent) + 1 > (len(self) - 1) // 2:
                return False
            self._flushed_at[i] = now
            self._grown_at[i] = now + guard_time(self.ttl) + GUARD_SLACK_S
        return self.command(i, "FLUSHALL")

    def command(self, i: int, *words: Any) -> bool:
        """A command of the nemesis; whether it was carried out."""
        with contextlib.suppress(redis.RedisError, OSError), contextlib.closing(self.raw(i)) as client:
            client.execute_command(*words)
            return True
        return False

    def raw(self, i: int, timeout_s: float = 1.0) -> redis.Redis:
        """A plain client."""
        return raw(self.masters[i].url, timeout_s)

    def quorum_at(self) -> float:
        """From when on (time.monotonic) a quorum has votes that count."""
        with self._mutex:
            return sorted(self._grown_at)[quorum(len(self)) - 1]

    def mend(self) -> None:
        """Everything runs and lets everything through."""
        for proxy in self.proxies:
            proxy.mend()
        for i, master in enumerate(self.masters):
            if not master.running:
                self.start(i)
            with contextlib.suppress(Exception):
                master.resume()
            self.command(i, "CLIENT", "UNPAUSE")

    def left(self) -> list[tuple[str, float]]:
        """Keys and channels that are not meant to stay, with the seconds after which they go (inf: never)."""
        found: list[tuple[str, float]] = []
        for i, url in enumerate(self.urls):
            with contextlib.closing(self.raw(i, 5.0)) as client:
                for key in left(url):
                    ttl_ms: Any = client.pttl(key)
                    if ttl_ms != -2:
                        found.append((f"key {key}", float("inf") if ttl_ms < 0 else ttl_ms / 1000))
                channels: Any = client.pubsub_channels()
                found += [(f"channel {channel}", float("inf")) for channel in channels]
        return found
