"""rlock: a reentrant lock on N independent Redis or Valkey masters that drops in for threading.RLock.

A lease cannot exclude a paused holder. The promise is: no two *valid* leases of one lock overlap, while
clocks run at about the same rate. See `RLock` for what that means for a caller.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._client.endpoints import Group as Group
    from .client import Client as Client
    from .errors import LeaseLostError as LeaseLostError
    from .errors import LockBusyError as LockBusyError
    from .errors import NotHeldError as NotHeldError
    from .errors import OptionsError as OptionsError
    from .errors import QuorumUnreachableError as QuorumUnreachableError
    from .errors import RLockError as RLockError
    from .errors import UpgradeError as UpgradeError
    from .lock import Lock as Lock
    from .lock import LossSignal as LossSignal
    from .lock import RLock as RLock
    from .model import LockStatus as LockStatus
    from .model import MasterStatus as MasterStatus
    from .model import ReadWriteLock as ReadWriteLock
    from .model import Waiter as Waiter
    from .recipes.decorator import locked as locked

__version__ = "0.1.0"

#: The public names of each module. It is imported with the first use of one: `rlock --version` needs none.
_NAMES = {
    "_client.endpoints": "Group",
    "client": "Client",
    "recipes.decorator": "locked",
    "events": "",  # without names here: `rlock.events` itself is public
    "errors": "LeaseLostError LockBusyError NotHeldError OptionsError QuorumUnreachableError RLockError "
    "UpgradeError",
    "lock": "Lock LossSignal RLock",
    "model": "LockStatus MasterStatus ReadWriteLock Waiter",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
