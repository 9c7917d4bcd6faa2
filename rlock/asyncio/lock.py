"""RLock: the lock that tasks hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .._async.runtime import run
from .._client import hold_table
from .._client.runtime import Parker
from ..base import AsyncLock, BaseLock
from ..procedures.inspect import locked

if TYPE_CHECKING:
    from .client import Client


class LossSignal(hold_table.LossSignal):
    """As `rlock.LossSignal`, for tasks: ``wait`` is a coroutine. A thread may ask ``is_set()``."""

    def __init__(self, *made_of: Any) -> None:
        super().__init__(*made_of)
        self._loop = asyncio.get_running_loop()

    def _wake(self, parker: Parker) -> None:
        # A thread that was given the signal may be the first to see the loss.
        self._loop.call_soon_threadsafe(parker.wake)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        return await run(self._wait_gen(timeout))


class RLock(BaseLock[LossSignal], AsyncLock):
    """A reentrant lock across processes and machines, for tasks; the guarantees are those of `rlock.RLock`.

    Made by ``client.lock(name)``. The owner is a *task* of a client, not this object. A child task is another
    owner: it waits for a lock that its parent holds, and only the child can release its own acquires. So
    ``asyncio.wait_for(lock.acquire(), 5)`` is a trap before Python 3.12, where it makes a child task. Use
    ``acquire(timeout=5)`` or ``asyncio.timeout(5)``. After the end of its task a lock is not renewed.

    A cancellation, at whatever await, leaves nothing behind: no vote, no place in the queue, no hold.

    A task renews the lease. Code that blocks the event loop for longer than the ttl loses the lock; the next
    `check` or `release` raises `LeaseLostError`.
    """

    __slots__ = ()

    _client: Client
    _signal_type = LossSignal

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock: True when the caller has it, False when another owner kept it for all the time.

        Arguments, errors and network cost are those of `rlock.RLock.acquire`. Nested calls do not suspend.
        """
        return await self._client._engine().acquire(self._options, self._until(blocking, timeout))

    async def release(self) -> None:
        """Give back one acquire; the last one hands the lock to the first waiter, or frees it.

        Errors and network cost are those of `rlock.RLock.release`. A cancelled release is done all the same.
        """
        await self._client._engine().release(self.name)

    async def locked(self) -> bool:
        """Whether anybody holds the lock, asked of the masters; see `rlock.RLock.locked`."""
        engine = self._client._engine()
        return await engine.perform(locked(engine.masters, self.name, self._options.lease.request_timeout))
