"""Masters of `rlock.testing` where a test expects real ones: their URLs, and a look into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

import rlock
from rlock.testing import MemoryMaster, MemoryMasters

if TYPE_CHECKING:
    from .servers import Fleet

SCHEME = "memory://"
_masters: WeakValueDictionary[str, MemoryMaster] = WeakValueDictionary()


class Stand:
    """One of them, in a `Fleet`. It has no process that could be killed."""

    running = True

    def __init__(self, master: MemoryMaster) -> None:
        self.master = master
        self.url = master.label
        self.pause, self.resume = master.pause, master.resume
        _masters[self.url] = master

    def start(self, empty: bool = True) -> NoReturn:
        raise NotImplementedError

    stop = kill = close = restart = start


def fleet(count: int) -> Fleet:
    from .servers import Fleet  # it knows this module

    return Fleet([Stand(master) for master in MemoryMasters(count)])


def client(urls: Sequence[Any] | str, ttl: float, **options: Any) -> rlock.Client:
    """A client on masters by their URLs; other URLs stay."""
    return rlock.Client(_named(urls), ttl, **options)


def asyncio_client(urls: Sequence[Any] | str, ttl: float, **options: Any) -> Any:
    """The same for tasks, behind the interface of a blocking client."""
    from .lock.tasks import Client  # it stands on a folder that uses this module

    return Client(_named(urls), ttl, **options)


def _named(urls: Sequence[Any] | str) -> list[Any]:
    return [_masters.get(url, url) for url in ([urls] if isinstance(urls, str) else urls)]


class Raw:
    """In the place of a redis.Redis: what contract tests ask behind the back of a client."""

    def __init__(self, url: str) -> None:
        self._master = _masters[url]

    def pubsub_channels(self) -> list[str]:
        with self._master.mutex:
            return list(self._master._keys.subscribers)

    def info(self, section: str) -> dict[str, int]:
        """With one for whoever asks, as a server counts."""
        assert section == "clients"
        with self._master.mutex:
            return {"connected_clients": 1 + len(self._master._connections_by_id)}
