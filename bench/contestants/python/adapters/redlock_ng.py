"""redlock-ng: all masters, one after another, all replies. Not reentrant.

Renewing is the user's. It tries again after 100 to 300 ms, both options. It can block for ever or try so many
times, but knows no time-out: as many tries are asked for as fill the time.
"""

from __future__ import annotations

import copy
import importlib.metadata

from library import Library, Lock, tries
from redlock import Redlock
from redlock.lock import Lock as Peer


def _delays(poll_ms: float | None) -> dict[str, float]:
    """The options; as far from the mean as the defaults are from theirs."""
    if poll_ms is None:
        return {}
    return {"retry_delay_min": 0.5 * poll_ms / 1000, "retry_delay_max": 1.5 * poll_ms / 1000}


class RedlockNg(Library):
    name = "redlock-ng"
    version = importlib.metadata.version("redlock-ng")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.manager = Redlock(masters, **_delays(poll_ms))
        self.ttl_ms = ttl_ms

    def lock(self, name: str) -> Lock:
        # A copy has the connections of the first one, and a number of tries of its own.
        return _Lock(copy.copy(self.manager), name, self.ttl_ms)


class _Lock:
    def __init__(self, manager: Redlock, name: str, ttl_ms: int) -> None:
        self.manager, self.name, self.ttl_ms = manager, name, ttl_ms
        self.delay_s = (manager.retry_delay_min + manager.retry_delay_max) / 2
        self.held: Peer | None = None

    def acquire(self, wait_s: float) -> bool:
        for count in tries(wait_s, self.delay_s):
            self.manager.retry_count = count - 1
            self.held = self.manager.acquire(self.name, self.ttl_ms)
            if self.held is not None:
                return True
        return False

    def release(self) -> None:
        assert self.held is not None
        self.manager.release(self.held)
