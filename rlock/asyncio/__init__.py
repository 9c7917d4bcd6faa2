"""rlock for asyncio: the same lock, with the same names and arguments, awaitable.

    import rlock.asyncio

    client = rlock.asyncio.Client(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])

    async with client.lock("orders:42"):
        ...

The owner is a *task* of a client: a child task is another owner. No thread is started. On the same masters
these locks and those of `rlock.Client` are one: they exclude and wake each other.
"""

from .._client.endpoints import Group
from ..base import AsyncLock as Lock
from ..errors import (
    LeaseLostError,
    LockBusyError,
    NotHeldError,
    OptionsError,
    QuorumUnreachableError,
    RLockError,
)
from ..model import LockStatus, MasterStatus, Waiter
from ..recipes.decorator import locked
from .client import Client, LossSignal, RLock

__all__ = [
    "Client",
    "Group",
    "LeaseLostError",
    "Lock",
    "LockBusyError",
    "LockStatus",
    "LossSignal",
    "MasterStatus",
    "NotHeldError",
    "OptionsError",
    "QuorumUnreachableError",
    "RLock",
    "RLockError",
    "Waiter",
    "locked",
]
