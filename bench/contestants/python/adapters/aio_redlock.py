"""aioredlock: all masters at once, in an event loop; it waits for all of them. Not reentrant.

It tries again after 100 to 300 ms, both options, so many times, and knows no time-out: as many tries are
asked for as fill the time. A lock without ``lock_timeout`` is renewed by a task; its page's first example has
one.
"""

from __future__ import annotations

import copy
import importlib.metadata

from aioredlock import Aioredlock
from aioredlock.errors import LockAcquiringError
from aioredlock.lock import Lock as Peer
from library import AsyncLibrary, AsyncLock, tries


class AioRedlock(AsyncLibrary):
    name = "aioredlock"
    version = importlib.metadata.version("aioredlock")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.masters, self.ttl_s, self.poll_ms = masters, ttl_ms / 1000, poll_ms

    async def start(self) -> None:
        options = {"internal_lock_timeout": self.ttl_s}
        if self.poll_ms is not None:
            # As far from the mean as the defaults are from theirs.
            options["retry_delay_min"] = self.poll_ms / 2000
            options["retry_delay_max"] = 1.5 * self.poll_ms / 1000
        self.manager = Aioredlock(self.masters, **options)

    def lock(self, name: str) -> AsyncLock:
        # A copy has the connections of the first one, and a number of tries of its own.
        return _Lock(copy.copy(self.manager), name, self.ttl_s)

    def kept(self, name: str) -> AsyncLock:
        return _Lock(copy.copy(self.manager), name, None)


class _Lock:
    def __init__(self, manager: Aioredlock, name: str, ttl_s: float | None) -> None:
        self.manager, self.name, self.ttl_s = manager, name, ttl_s
        self.delay_s = (manager.retry_delay_min + manager.retry_delay_max) / 2
        self.held: Peer | None = None

    async def acquire(self, wait_s: float) -> bool:
        for count in tries(wait_s, self.delay_s):
            self.manager.retry_count = count
            try:
                self.held = await self.manager.lock(self.name, self.ttl_s)
                return True
            except LockAcquiringError:  # somebody else has it
                pass
        return False

    async def release(self) -> None:
        assert self.held is not None
        await self.held.release()
