"""The client of tasks, its locks and their loss signals."""

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Any, Self

from .._async.connections import Endpoint
from .._async.engine import Engine
from .._async.runtime import run
from .._client import hold_table
from .._client.runtime import Parker
from .._client.transfers import adopt_gen, detach_gen
from ..base import AsyncLock, BaseClient
from ..errors import RLockError
from ..lock import BaseLock
from ..model import LockStatus
from ..procedures import inspect
from ..rules.options import check_name

if TYPE_CHECKING:
    import redis.asyncio
    import valkey.asyncio

    from ..recipes.leader import AsyncLeader as AsyncLeader
    from ..recipes.semaphore import AsyncSemaphore as AsyncSemaphore
    from ..recipes.several import AsyncLocks as AsyncLocks

    ReadyClient = redis.asyncio.Redis | valkey.asyncio.Valkey


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

    _client: "Client"
    _signal_type = LossSignal

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock: True when the caller has it, False when another owner kept it for all the time.

        Arguments, errors and network cost are those of `rlock.RLock.acquire`. Nested calls do not suspend.
        """
        return await run(self._client._engine().acquire(self._options, self._until(blocking, timeout)))

    async def release(self) -> None:
        """Give back one acquire; the last one hands the lock to the first waiter, or frees it.

        Errors and network cost are those of `rlock.RLock.release`. A cancelled release is done all the same.
        """
        engine = self._client._engine()
        await run(engine.release_gen(engine.held(self._options.hold_name)))

    async def detach(self, ttl: float | None = None) -> str:
        """End the caller's hold here, and keep the lock for whoever adopts it; see `rlock.RLock.detach`."""
        return await run(detach_gen(self, ttl))

    async def locked(self) -> bool:
        """Whether anybody holds the lock, asked of the masters; see `rlock.RLock.locked`."""
        engine, timeout = self._client._engine(), self._options.lease.request_timeout
        return await engine.perform(inspect.locked(engine.masters, self.name, timeout))


class Client(BaseClient[RLock, "ReadyClient", "AsyncSemaphore", "AsyncLocks", "AsyncLeader"]):
    """Locks for tasks; the arguments, errors and guarantees are those of `rlock.Client`.

    Nothing is connected before the first use. A client belongs to no event loop: in each loop that uses it,
    it has connections and holds of its own. So it may stand in a module, and outlive an ``asyncio.run``.
    Not thread-safe within a loop, as everything of asyncio. After ``fork()`` the child holds nothing.

    Close it, or use ``async with``: at the end of the process the loop is gone, and Python cannot close it.

    :param masters: URLs, or ready ``redis.asyncio.Redis`` or ``valkey.asyncio.Valkey`` objects, of which the
        connection settings are taken.
    """

    _endpoint_type = Endpoint
    _lock_type = RLock
    _prefix = "Async"

    def _set_up(self) -> None:
        self._engines: dict[asyncio.AbstractEventLoop, Engine] = {}
        # Otherwise a client that is dropped without close() leaves its sockets, which event loops know, open.
        weakref.finalize(self, _drop, self._engines).atexit = False

    async def adopt(self, handle: str, **options: Any) -> RLock:
        """The lock of a handle, held by the calling task; see `rlock.Client.adopt`."""
        return await run(adopt_gen(self, handle, options))

    async def status(self, name: str) -> LockStatus:
        """The holder of a lock, and each master's view; see `rlock.Client.status`."""
        engine = self._engine()
        return await engine.perform(inspect.status(engine.masters, check_name(name), engine.timeout))

    async def evict(self, name: str) -> list[str]:
        """Remove every holder of a lock; returns the removed owner tokens. See `rlock.Client.evict`."""
        engine = self._engine()
        return await engine.perform(inspect.evict(engine.masters, check_name(name), engine.timeout))

    async def init(self) -> dict[str, str | None]:
        """State that nothing was locked before; see `rlock.Client.init`, with its dangers."""
        engine = self._engine()
        return await engine.perform(inspect.init(engine.masters, engine.timeout))

    async def close(self) -> None:
        """Release all holds, end tasks and connections, in all loops. Waiting acquires get `RLockError`."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, engine in list(self._engines.items()):
            if engine.pid != os.getpid():
                continue
            if loop is here:
                await engine.close()
            elif loop.is_running():
                await _close_in(loop, engine)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _here(self) -> Engine | None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        engine = self._engines.get(loop)
        return None if engine is None or engine.pid != os.getpid() else engine

    def _engine(self) -> Engine:
        """The engine of the running event loop, made with the first use. RuntimeError: no loop runs."""
        engine = self._here()
        if engine is None:
            if self._closed:
                raise RLockError("the client is closed")
            # Each asyncio.run that did not close the client leaves an engine of a closed loop.
            for loop in [loop for loop in list(self._engines) if loop.is_closed()]:
                dead = self._engines.pop(loop, None)
                if dead is not None:  # otherwise another thread was faster
                    dead.abandon()
            engine = Engine(self._endpoints, self._options)
            engine.holds.client = weakref.ref(self)
            self._engines[asyncio.get_running_loop()] = engine
        return engine

    def _after_fork(self) -> None:
        for engine in self._engines.values():
            engine.abandon()
        self._engines.clear()


def _drop(engines: dict[asyncio.AbstractEventLoop, Engine]) -> None:
    for loop, engine in engines.items():
        if not loop.is_closed() and engine.pid == os.getpid():
            # Not at once: the garbage collector may run in the middle of any line of the loop's thread.
            loop.call_soon_threadsafe(engine.drop)


async def _close_in(loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
    """Close an engine in its own event loop, which may end meanwhile and cancel the close."""
    closing = engine.close()
    try:
        there = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
    except RuntimeError:  # the loop was closed since
        closing.close()
        return
    while not there.done() and loop.is_running():
        await asyncio.wait([there], timeout=0.1)
    if there.done() and not there.cancelled():
        there.result()
