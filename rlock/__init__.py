"""rlock: a reentrant lock on N independent Redis or Valkey masters that drops in for threading.RLock.

A lease cannot exclude a paused holder. The promise is: no two *valid* leases of one lock overlap, while
clocks run at about the same rate. See `RLock` for what that means for a caller.
"""

from ._client.endpoints import Group
from .client import Client
from .errors import (
    LeaseLostError,
    LockBusyError,
    NotHeldError,
    OptionsError,
    QuorumUnreachableError,
    RLockError,
)
from .lock import Lock, LossSignal, RLock
from .model import LockStatus, MasterStatus, Waiter
from .recipes.decorator import locked

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

__version__ = "0.1.0"
