"""redis-py's own `Lock`, on the quorum of an rlock client.

    Lock = lock_class(client)
    redis.Redis().lock("report", timeout=600, lock_class=Lock)

The interface is that of redis-py 5 to 8: it is not reentrant, and each ``acquire`` is an owner of its own. It
differs where a lock on several masters must:

- ``timeout=None``: the lease is renewed until the release, as long as the process works and the lock object
  exists. With redis-py such a lock stays for ever if its process dies.
- ``timeout`` up to the client's ``max_ttl``: a fixed lease. Longer: a lease that is renewed for so long. The
  lock of a dead process is then free after the client's ttl, and not after the whole time.
- ``sleep`` sets only the end of the wait: at the last multiple of ``sleep`` before ``blocking_timeout``, as
  there. A waiter does not poll: the release wakes it.
- ``token`` names the hold within this process. Another process cannot release by it.
- ``extend`` and ``reacquire`` never shorten a lease: an earlier, longer one may have been promised.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import redis.exceptions

from ..base import BaseClient
from ..client import Client
from ..errors import OptionsError, RLockError
from ..procedures.port import WaitGenerator
from .redis_py_base import BaseLock
from .redis_py_base import LockError as LockError
from .redis_py_base import LockNotOwnedError as LockNotOwnedError
from .redis_py_base import LockUnreachableError as LockUnreachableError

if TYPE_CHECKING:
    import rlock.asyncio

T = TypeVar("T")

log = logging.getLogger("rlock")

NOT_WITHIN = "Unable to acquire lock within the time specified"
ON_EXIT = "Lock was unlocked or no longer owned when exiting context manager."


class Lock(BaseLock):
    """`redis.lock.Lock` on the quorum of the client that `lock_class` was given."""

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Take the lock: True, or False if another owner kept it for all the time.

        :raises LockUnreachableError: the time is over, and too few masters answered or may vote.
        """
        engine = self.client._engine()
        return self._perform(self._acquire_gen(engine, sleep, blocking, blocking_timeout, token))

    def release(self) -> None:
        """Release. Raises `LockError` without an acquire, `LockNotOwnedError` after a loss."""
        self._perform(self._release_gen(self.client._engine()))

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Add seconds to the lease, or (``replace_ttl``) prolong it to that many seconds from now.

        :raises LockNotOwnedError: the hold was lost.
        :raises LockError: the lock is not held, or has no timeout.
        """
        engine, hold = self._extended("extend")
        return self._perform(self._extend_gen(engine, hold, additional_time, added=not replace_ttl))

    def reacquire(self) -> Literal[True]:
        """Prolong the lease to ``timeout`` seconds from now. Errors as `extend`."""
        engine, hold = self._extended("reacquire")
        return self._perform(self._extend_gen(engine, hold, self.timeout or 0.0, added=False))

    def locked(self) -> bool:
        """Whether anybody holds the lock, asked of the masters; see `rlock.RLock.locked`."""
        return self._perform(self._locked_gen(self.client._engine()))

    def owned(self) -> bool:
        """Whether this lock holds it with validity left. No network."""
        return self._is_owned()

    def _perform(self, procedure: WaitGenerator[T]) -> T:
        try:
            result: T = self.client._engine().perform(procedure)
            return result
        except redis.exceptions.RedisError:
            raise
        except RLockError as error:
            raise self._translated(error) from error

    def __enter__(self) -> Self:
        before = self._owner
        try:
            if self.acquire():
                return self
        except BaseException:
            self._drop(before)
            raise
        raise LockError(NOT_WITHIN, self._name)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.release()
        except redis.exceptions.LockError:
            if self.raise_on_release_error:
                raise
            log.warning(ON_EXIT)
        except BaseException:
            self._drop(None)  # Ctrl-C before the release: otherwise it would stay held
            raise


class AsyncLock(BaseLock):
    """`redis.asyncio.lock.Lock` on the quorum; the methods are those of `Lock`, awaited."""

    async def acquire(  # noqa: D102
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        engine = self.client._engine()
        return await self._perform(self._acquire_gen(engine, sleep, blocking, blocking_timeout, token))

    async def release(self) -> None:  # noqa: D102
        await self._perform(self._release_gen(self.client._engine()))

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:  # noqa: D102
        engine, hold = self._extended("extend")
        return await self._perform(self._extend_gen(engine, hold, additional_time, added=not replace_ttl))

    async def reacquire(self) -> Literal[True]:  # noqa: D102
        engine, hold = self._extended("reacquire")
        return await self._perform(self._extend_gen(engine, hold, self.timeout or 0.0, added=False))

    async def locked(self) -> bool:  # noqa: D102
        return await self._perform(self._locked_gen(self.client._engine()))

    async def owned(self) -> bool:  # noqa: D102
        return self._is_owned()

    async def _perform(self, procedure: WaitGenerator[T]) -> T:
        try:
            result: T = await self.client._engine().perform(procedure)
            return result
        except redis.exceptions.RedisError:
            raise
        except RLockError as error:
            raise self._translated(error) from error

    async def __aenter__(self) -> Self:
        before = self._owner
        try:
            if await self.acquire():
                return self
        except BaseException:
            self._drop(before)
            raise
        raise LockError(NOT_WITHIN, self._name)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except redis.exceptions.LockError:
            if self.raise_on_release_error:
                raise
            log.warning(ON_EXIT)


@overload
def lock_class(client: Client) -> type[Lock]: ...
@overload
def lock_class(client: rlock.asyncio.Client) -> type[AsyncLock]: ...
def lock_class(client: Any) -> Any:
    """A class for ``lock_class=`` of redis-py: its locks are held on the masters of ``client``.

    The ``redis.Redis`` object that makes the locks is not used: it may belong to another server.
    """
    if isinstance(client, Client):
        return type("Lock", (Lock,), {"client": client})
    if isinstance(client, BaseClient):
        return type("AsyncLock", (AsyncLock,), {"client": client})
    raise OptionsError(f"lock_class needs an rlock.Client or an rlock.asyncio.Client, not {client!r}")
