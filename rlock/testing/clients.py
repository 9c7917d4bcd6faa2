"""Clients in memory, and a hold that is lost now."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._client.engine import Engine
from .._sync.runtime import run
from ..client import Client
from ..errors import NotHeldError, RLockError
from ..lock import BaseLock, RLock
from ..procedures.inspect import evict
from ..procedures.port import WaitGenerator
from ..procedures.renew import heal, renew
from ..recipes.decorator import substitutes
from ..rules.lease import LeaseEvent
from .memory import MemoryMaster, MemoryMasters

if TYPE_CHECKING:
    from .. import asyncio

C = TypeVar("C")


@overload
def memory_client(
    n: int = ...,
    *,
    masters: MemoryMasters | Sequence[MemoryMaster] | None = ...,
    kind: type[C],
    **options: Any,
) -> C: ...


@overload
def memory_client(
    n: int = ..., *, masters: MemoryMasters | Sequence[MemoryMaster] | None = ..., **options: Any
) -> Client: ...


def memory_client(
    n: int = 1,
    *,
    masters: MemoryMasters | Sequence[MemoryMaster] | None = None,
    kind: Any = Client,
    **options: Any,
) -> Any:
    """A client on ``n`` masters in memory, or on ``masters`` that others use, too.

    Close it as any other. A client stands for a process: two of them on the same masters exclude each other.

    :param kind: `rlock.Client`, or `rlock.asyncio.Client`; on the same masters they share their locks.
    :param options: those of `rlock.Client`.
    """
    shared = MemoryMasters(n) if masters is None else masters
    return kind([*shared], **options)


@overload
def lose(lock: RLock) -> None: ...


@overload
def lose(lock: asyncio.RLock) -> Awaitable[None]: ...


def lose(lock: RLock | asyncio.RLock) -> Awaitable[None] | None:
    """Have a hold be lost now: evict it, and have its client ask the masters at once.

    Every hold that the client of ``lock`` has on its name; from any thread, or any task of its event loop.
    When this returns (with asyncio: when it was awaited) ``lost`` is set and ``check()`` raises in the thread
    or task that holds it; ``on_lost`` has been called, or is about to be. Works on real masters, too.

    :raises NotHeldError: this client does not hold it.
    :raises QuorumUnreachableError: too few masters answered, so nothing is lost yet.
    """
    if not isinstance(lock, BaseLock):
        raise TypeError(f"lose() takes one lock, not {type(lock).__name__}: give it one of its locks")
    program = _losing(lock)
    if isinstance(lock, RLock):
        return run(program)
    from .._async.runtime import run as run_async  # it imports asyncio, which the others can do without

    return run_async(program)


@contextmanager
def use(source: Any, client: C) -> Iterator[C]:
    """Have functions that `rlock.locked` decorates with ``source`` use ``client`` until the end of the block.

    ``source`` is what stands in the decorator: a client, or what returns one (`rlock.Client.from_env`); that
    is not called. For the whole process, and for calls that begin in the block.
    """
    before = {source: substitutes[source]} if source in substitutes else {}
    substitutes[source] = client
    try:
        yield client
    finally:
        del substitutes[source]
        substitutes.update(before)


def _losing(lock: BaseLock[Any]) -> WaitGenerator[None]:
    engine: Engine = lock._client._engine()
    name, holds = lock.name, [hold for hold in lock._holders() if engine.holds.remaining(hold) > 0]
    if not holds:
        raise NotHeldError(name)
    yield from evict(engine.masters, name, lock._options.lease.request_timeout)
    # What the watchdog does when a renewal is due. It may be long until then, and a lock that is not renewed
    # would never ask.
    round_ = yield from renew(engine.masters, holds)
    told = [*round_.decided, *(yield from heal(engine.masters, round_, math.inf))]
    disowned = [renewal for renewal in told if renewal.event is LeaseEvent.DISOWNED]
    for hold in engine.watchdog._apply(disowned):
        engine.watchdog.report_loss(hold)
    if any(engine.holds.remaining(hold) > 0 for hold in holds if hold in engine.holds):
        raise RLockError(f"lock {name!r} was evicted, but too few masters say so: it is still held")
