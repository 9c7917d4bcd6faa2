"""tooz with its locks on a quorum; groups, members and watchers stay on the Redis server of the URL.

    get_coordinator("rlock://10.0.0.1?masters=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3", b"host-1")

Without ``masters`` they are those of RLOCK_MASTERS.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tooz import coordination
from tooz.drivers.redis import RedisDriver, RedisLock

from ..client import Client
from ..errors import QuorumUnreachableError
from . import redis_py


class QuorumLock(redis_py.Lock):
    """Tells tooz of a lost quorum in its own words: it would repeat the call after an error of redis-py."""

    def _perform(self, procedure: Any) -> Any:
        try:
            return super()._perform(procedure)
        except redis_py.LockUnreachableError as error:
            raise coordination.ToozConnectionError(str(error)) from error


class Lock(RedisLock):  # type: ignore[misc]
    """tooz's lock. It is renewed until the release, also without heartbeats."""

    def __init__(self, driver: Driver, name: str | bytes) -> None:
        kind = type("Lock", (QuorumLock,), {"client": driver.quorum})
        locks = SimpleNamespace(lock=lambda name, **_: kind(None, _text(name), sleep=0.0, thread_local=False))
        super().__init__(driver, locks, name, 0)

    def is_still_owner(self) -> bool:  # noqa: D102
        return bool(self._lock.owned())

    heartbeat = is_still_owner

    def break_(self) -> bool:  # noqa: D102
        try:
            return bool(self._coord.quorum.evict(_text(self.name)))
        except QuorumUnreachableError as error:
            raise coordination.ToozConnectionError(str(error)) from error


def _text(name: bytes) -> str:
    """tooz takes any bytes for a name, and Redis for a key."""
    return name.decode(errors="backslashreplace")


class Driver(RedisDriver):  # type: ignore[misc]
    """The redis driver of tooz, with `Lock`."""

    def _start(self) -> None:
        masters = self._options.get("masters")
        self.quorum = Client.from_env({"RLOCK_MASTERS": masters} if masters else None)
        super()._start()

    def _stop(self) -> None:
        super()._stop()
        self.quorum.close()

    def get_lock(self, name: str | bytes) -> Lock:  # noqa: D102
        return Lock(self, name)
