"""RLock: the lock that tasks hold."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from .._async.loss_signal import LossSignal
from ..base import BaseLock
from ..errors import RLockError
from ..model import LockStatistics
from ..procedures.inspect import locked

if TYPE_CHECKING:
    from typing_extensions import Self

    from .client import Client

log = logging.getLogger("rlock")


class RLock(BaseLock):
    """A reentrant lock across processes and machines, for tasks; the guarantees are those of `rlock.RLock`.

    Made by ``client.lock(name)``. The owner is a *task* of a client, not this object. A child task is
    another owner: it waits for what its parent holds, and what it acquires nobody else can release. So
    ``asyncio.wait_for(lock.acquire(), 5)`` is a trap before Python 3.12, where it makes a child task: use
    ``acquire(timeout=5)``, or ``asyncio.timeout(5)``. The lock of a task that has ended is renewed no more.

    A cancellation, at whatever await, leaves nothing behind: no vote, no place in the queue, no hold.

    The lease is renewed by a task: code that blocks the event loop for longer than the ttl loses the lock,
    and is told so by `LeaseLostError`.
    """

    __slots__ = ()

    _client: Client

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; True when the caller has it, False when the time is over and somebody else had it.

        Arguments, errors and network cost are those of `rlock.RLock.acquire`. Nested calls do not suspend.
        """
        until = self._until(blocking, timeout)
        return await self._client._engine().acquire(self._options, until)

    async def release(self) -> None:
        """Give back one acquire; the last one hands the lock to the first waiter, or frees it.

        Errors and network cost are those of `rlock.RLock.release`. Cancelled, it is released all the same.
        """
        await self._client._engine().release(self.name)

    if not TYPE_CHECKING:  # a type checker has words of its own for it

        def __enter__(self) -> NoReturn:
            raise TypeError(
                f"lock {self.name!r} is one for tasks: use `async with`, or a lock of rlock.Client"
            )

        def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except RLockError as failure:
            if error is None:
                raise
            # The body's own exception is what the caller must see; the failure is told beside it.
            log.error("%s", failure)
            if hasattr(error, "add_note"):
                error.add_note(f"rlock: {failure}")

    async def locked(self) -> bool:
        """Whether anybody holds it, asked of the masters; see `rlock.RLock.locked`."""
        engine = self._client._engine()
        return await engine.perform(locked(engine.masters, self.name, self._options.lease.request_timeout))

    async def statistics(self) -> LockStatistics:
        """Who waits for it, in which order and since when; see `rlock.RLock.statistics`."""
        return await self._client._engine().statistics(self.name, self._options.lease.request_timeout)

    @property
    def lost(self) -> LossSignal:
        """Set when the calling task's present hold is lost: ``is_set()``, ``await wait(timeout)``.

        Keep it in a variable to ask after the release; without a hold one that is never set.
        """
        engine = self._client._engine()
        hold = engine.hold(self.name)
        if hold is None:
            return LossSignal(None, engine.clock)
        signal = hold.report.signal
        if not isinstance(signal, LossSignal):
            signal = hold.report.signal = LossSignal(hold, engine.clock)
        return signal
