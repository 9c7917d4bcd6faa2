"""rlock's blocking client, at its default settings; `Fair`: its locks with ``fair=True``.

`ReadWrite`: the writer and the reader of its read-write lock.
"""

from __future__ import annotations

from library import Library, Lock

import rlock


class Ours(Library):
    version = rlock.__version__
    reentrant = True
    fair = False

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = rlock.Client(masters, ttl_ms / 1000)

    def lock(self, name: str) -> Lock:
        lock = self.client.lock(name, fair=self.fair)
        return Lock(lambda wait_s: lock.acquire(timeout=wait_s), lock.release)

    kept = lock


class Fair(Ours):
    fair = True


class InGroup(Ours):
    """For bench/failover.py: a short lease, which nothing renews."""

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.client = rlock.Client(masters, ttl_ms / 1000, max_ttl=ttl_ms / 1000)

    def lock(self, name: str) -> Lock:
        lock = self.client.lock(name, renew=False)
        return Lock(lambda wait_s: lock.acquire(timeout=wait_s), lock.release)


class ReadWrite(Fair):
    def shared(self, name: str) -> Lock:
        reader = self.client.read_write_lock(name).reader
        return Lock(lambda wait_s: reader.acquire(timeout=wait_s), reader.release)
