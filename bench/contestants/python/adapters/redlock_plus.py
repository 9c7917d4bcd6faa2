"""redlock-plus, its RLock: acquired on all masters one after another, released by a thread for each.

It wants three masters or more. It tries again after 0 to 200 ms (``retry_delay``). Reentrant; a nested
acquire asks all masters. Its renewal, a thread for each lock, is off by default for an RLock.
"""

from __future__ import annotations

import redlock_plus as peer
from library import Library, Lock


class RedlockPlus(Library):
    version = peer.__version__
    reentrant = True

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        options = {} if poll_ms is None else {"retry_delay": max(1, round(2 * poll_ms))}  # the mean is half
        self.locks = peer.RLockFactory([{"url": url} for url in masters], ttl=ttl_ms, **options)

    def lock(self, name: str) -> Lock:
        lock = self.locks(name)

        def release() -> None:
            # Whether a majority released it: it says so and raises nothing.
            if not lock.release():
                raise RuntimeError("release returned False: not released by a majority")

        return Lock(lambda wait_s: lock.acquire(timeout=wait_s), release)
