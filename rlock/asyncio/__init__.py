"""rlock for asyncio: the same lock, with the same names and arguments, awaitable.

    import rlock.asyncio

    client = rlock.asyncio.Client(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])

    async with client.lock("orders:42"):
        ...

The owner is a *task* of a client: a child task is another owner. No thread is started. On the same masters
these locks and those of `rlock.Client` are one: they exclude and wake each other.
"""

from contextlib import suppress

from .. import __all__ as __all__
from .._client.endpoints import Group as Group
from .._client.libraries import library_of
from ..base import AsyncLock
from ..errors import LeaseLostError as LeaseLostError
from ..errors import LockBusyError as LockBusyError
from ..errors import NotHeldError as NotHeldError
from ..errors import OptionsError as OptionsError
from ..errors import QuorumUnreachableError as QuorumUnreachableError
from ..errors import RLockError as RLockError
from ..errors import UpgradeError as UpgradeError
from ..model import LockStatus as LockStatus
from ..model import MasterStatus as MasterStatus
from ..model import ReadWriteLock as ReadWriteLock
from ..model import Waiter as Waiter
from ..recipes.decorator import locked as locked
from .client import Client as Client
from .client import LossSignal as LossSignal
from .client import RLock as RLock

Lock = AsyncLock

# Now: otherwise the first client would block its event loop for the time of the import.
with suppress(ImportError):  # a client says what is missing
    library_of(None, ".asyncio")
