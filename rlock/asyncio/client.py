"""Client: the masters, and what all locks on them share."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import redis.asyncio

from .. import clock
from .._async.endpoints import Endpoint
from .._async.engine import Engine
from .._client.endpoints import Endpoint as BaseEndpoint
from ..base import BaseClient
from ..errors import RLockError
from ..model import LockStatus
from ..procedures import inspect
from ..procedures.init import init
from ..rules.options import DEFAULT_TTL, check_name
from .lock import RLock

if TYPE_CHECKING:
    from typing_extensions import Self


class Client(BaseClient[RLock]):
    """Locks for tasks; the arguments, errors and guarantees are those of `rlock.Client`.

    Nothing is connected before the first use. It belongs to no event loop: in each one in which it is used
    it has connections and holds of its own, so it may stand in a module, and outlive an ``asyncio.run``.
    Not thread-safe within a loop, as everything of asyncio. After ``fork()`` the child holds nothing.

    Close it, or use ``async with``: Python can not do that at the end of the process, when the loop is gone.

    :param masters: URLs or ready ``redis.asyncio.Redis`` objects, of which the connection settings are taken.
    """

    _kind = Endpoint
    _lock = RLock

    def __init__(
        self,
        masters: Sequence[str | redis.asyncio.Redis | BaseEndpoint]
        | str
        | redis.asyncio.Redis
        | BaseEndpoint,
        ttl: float = DEFAULT_TTL,
        *,
        max_ttl: float | None = None,
        request_timeout: float | None = None,
        restart_guard: float | None = None,
        interop: str | None = None,
    ) -> None:
        self._engines: dict[asyncio.AbstractEventLoop, Engine] = {}
        # The event loops know the sockets: a client that is dropped without close() would leave them.
        weakref.finalize(self, _drop, self._engines).atexit = False
        super().__init__(
            masters,
            ttl,
            max_ttl=max_ttl,
            request_timeout=request_timeout,
            restart_guard=restart_guard,
            interop=interop,
        )

    async def status(self, name: str) -> LockStatus:
        """Who holds a lock, since when, for how long, and what each master says. One round to all.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        engine = self._engine()
        return await engine.perform(inspect.status(engine.masters, check_name(name), self._timeout))

    async def evict(self, name: str) -> list[str]:
        """Remove whoever holds a lock; the owner tokens that were removed. See `rlock.Client.evict`."""
        engine = self._engine()
        return await engine.perform(inspect.evict(engine.masters, check_name(name), self._timeout))

    async def init(self) -> dict[str, str | None]:
        """State that nothing was locked before; see `rlock.Client.init`, its dangers included."""
        engine = self._engine()
        return await engine.perform(init(engine.masters, self._timeout))

    async def close(self) -> None:
        """Release what is held, end all tasks and connections. Waiting acquires end with `RLockError`.

        Also in other event loops, if they still run.
        """
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, engine in list(self._engines.items()):
            if engine.pid != os.getpid():
                continue
            if loop is here:
                await engine.close()
            elif loop.is_running():
                await _closed(engine, loop)

    if not TYPE_CHECKING:  # a type checker has words of its own for it

        def __enter__(self) -> NoReturn:
            raise TypeError("an rlock.asyncio.Client is for tasks: use `async with`")

        def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _here(self) -> Engine | None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        engine = self._engines.get(loop)
        return None if engine is None or engine.pid != os.getpid() else engine

    def _engine(self) -> Engine:
        """The engine of the running event loop; RuntimeError: there is none."""
        engine = self._here()
        if engine is None:
            if self._closed:
                raise RLockError("the client is closed")
            for loop in [loop for loop in list(self._engines) if loop.is_closed()]:
                # As after each asyncio.run that did not close the client.
                dead = self._engines.pop(loop, None)  # another thread may have come first
                if dead is not None:
                    dead.abandon()
            engine = Engine(self._endpoints, self._options, clock.now)
            self._engines[asyncio.get_running_loop()] = engine
        return engine

    def _after_fork(self) -> None:
        for engine in self._engines.values():
            engine.abandon()
        self._engines.clear()


def _drop(engines: dict[asyncio.AbstractEventLoop, Engine]) -> None:
    for loop, engine in engines.items():
        if not loop.is_closed() and engine.pid == os.getpid():
            # Not at once: the garbage collector comes at any line.
            loop.call_soon_threadsafe(engine.drop)


async def _closed(engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
    """Close it in its own event loop, which may end meanwhile and cancel it; that is not for us."""
    closing = engine.close()
    try:
        there = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
    except RuntimeError:  # it has been closed since
        closing.close()
        return
    while not there.done() and loop.is_running():
        await asyncio.wait([there], timeout=0.1)
    if there.done() and not there.cancelled():
        there.result()
