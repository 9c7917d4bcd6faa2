"""portalocker's `RedisLock` on a quorum: ``RedisLock = lock_class(client)``. It interrupts no main thread."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from portalocker import exceptions, utils

from ..client import Client
from . import redis_py


class RedisLock(redis_py.Lock):
    """Not reentrant, as there. ``acquire`` raises `redis_py.LockUnreachableError` without a quorum."""

    def __init__(self, channel: str, connection: Any = None, timeout: Any = None, **options: Any) -> None:
        fails, _ = options.pop("fail_when_locked", False), options.pop("check_interval", None)
        self.on_lost, self._was_lost = options.pop("on_lost", None) or bool, False
        self.fence_token: int | None = None
        super().__init__(connection, channel, None, 0.0, not fails, thread_local=False, **options)
        self.blocking_timeout = utils.coalesce(timeout, utils.DEFAULT_TIMEOUT)

    def _options(self) -> Any:
        this = weakref.ref(self)  # a hold that knew its lock would be renewed for ever
        return replace(super()._options(), on_lost=lambda _: (lock := this()) and lock.on_lost(lock))

    def acquire(self, timeout: Any = None, check_interval: Any = None, fail_when_locked: Any = None) -> Any:  # type: ignore[override]  # noqa: D102
        if self.owned():
            raise exceptions.LockException("This lock is already active")
        blocks = None if fail_when_locked is None else not fail_when_locked
        if not super().acquire(blocking=blocks, blocking_timeout=timeout):
            raise exceptions.AlreadyLocked(f"{self._name} is locked")
        self.fence_token, self._was_lost = self.local.owner.hold.token, False
        return self

    def release(self) -> None:  # noqa: D102
        try:
            super().release()
        except (redis_py.LockError, redis_py.LockNotOwnedError) as error:
            self._was_lost |= isinstance(error, redis_py.LockNotOwnedError)

    @property
    def lost(self) -> bool:  # noqa: D102
        return self._was_lost or (self.local.token is not None and not self.owned())

    def ensure_held(self) -> None:  # noqa: D102
        if self.lost:
            raise exceptions.LockLostError(exceptions.LockException.LOCK_FAILED, "lost", channel=self._name)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            self.release()
        except BaseException:
            self._drop(None)
            raise
        if kind is None:
            self.ensure_held()


def lock_class(client: Client) -> type[RedisLock]:
    """The class of the locks of this client."""
    return type("RedisLock", (RedisLock,), {"client": client})
