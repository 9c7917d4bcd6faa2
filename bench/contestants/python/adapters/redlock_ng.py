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


class RedlockNg(Library):
    version = importlib.metadata.version("redlock-ng")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        # As far from the mean as the defaults are from theirs.
        ends = {} if poll_ms is None else {"min": 0.5 * poll_ms, "max": 1.5 * poll_ms}
        self.manager = Redlock(masters, **{f"retry_delay_{end}": ms / 1000 for end, ms in ends.items()})
        self.ttl_ms = ttl_ms

    def lock(self, name: str) -> Lock:
        # A copy has the connections of the first one, and a number of tries of its own.
        manager, held = copy.copy(self.manager), list[Peer]()
        delay_s = (manager.retry_delay_min + manager.retry_delay_max) / 2

        def acquire(wait_s: float) -> bool:
            for count in tries(wait_s, delay_s):
                manager.retry_count = count - 1
                if (got := manager.acquire(name, self.ttl_ms)) is not None:
                    held[:] = [got]
                    return True
            return False

        return Lock(acquire, lambda: manager.release(held[0]))
