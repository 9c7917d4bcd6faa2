"""pottery's Redlock: all masters, by a thread for each; it goes on at the majority. Not reentrant.

It tries again after 0 to 200 ms. That is a constant of the class and no option: the tuned one overrides it.
It renews nothing by itself, and can be extended three times.
"""

from __future__ import annotations

import importlib.metadata

from adapters.redis_py import client_of
from library import Library, Lock
from pottery import Redlock


class Pottery(Library):
    version = importlib.metadata.version("pottery")

    def __init__(self, masters: list[str], ttl_ms: int, poll_ms: float | None) -> None:
        self.masters = {client_of(url) for url in masters}
        self.ttl_s = ttl_ms / 1000
        self.kind = Redlock
        if poll_ms is not None:
            longest_s = 2 * poll_ms / 1000  # the mean is half of it

            class Tuned(Redlock):
                _RETRY_DELAY = longest_s

            self.kind = Tuned

    def lock(self, name: str) -> Lock:
        peer = self.kind(key=name, masters=self.masters, auto_release_time=self.ttl_s)
        return Lock(lambda wait_s: peer.acquire(timeout=wait_s), peer.release)
