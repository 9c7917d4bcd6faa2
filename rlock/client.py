"""Client: the masters, and the connections and threads that all locks on them share."""

import atexit
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from ._client.transfers import adopt_gen
from ._sync.connections import Endpoint
from ._sync.engine import Engine
from ._sync.runtime import OTHER_NATIVE_THREAD, PATCHED_TOO_LATE, check_patches, run
from .base import BaseClient, clients
from .errors import OptionsError, RLockError
from .lock import RLock
from .model import LockStatus
from .procedures import inspect
from .rules.options import check_name

if TYPE_CHECKING:
    import redis
    import valkey

    from .recipes.leader import Leader as Leader
    from .recipes.semaphore import Semaphore as Semaphore
    from .recipes.several import Locks as Locks

    ReadyClient = redis.Redis | valkey.Valkey


class Client(BaseClient[RLock, "ReadyClient", "Semaphore", "Locks", "Leader"]):
    """Locks on N independent masters: three survive the loss of one, five the loss of two. One works, too.

    Nothing is connected before the first use. Thread-safe. After ``fork()`` the child holds nothing.

    :param masters: URLs (``redis://``, ``rediss://``, ``unix://``, ``valkey://``, ``valkeys://``), or ready
        ``redis.Redis`` or ``valkey.Valkey`` objects, of which the connection settings are taken. Every
        process that shares a lock must name the same masters.
    :param ttl: length of a lease in seconds, 10 by default. A held lock is renewed after each third of it.
        When its holder crashes, the lock is free within this time.
    :param max_ttl: the longest ttl of any client of the fleet, in seconds: one value for the whole fleet.
        Default: 10; with ``interop`` 30, the lease of a Redisson that is not configured otherwise.
    :param request_timeout: seconds to wait for one master. Default: 0.5, or a sixth of a shorter ttl.
    :param restart_guard: seconds for which a master that restarted or was flushed has no vote, because
        leases that it has forgotten may still be valid. Default: enough for ``max_ttl``, 10.1 for 10. 0 turns
        the guard off, so a restart can give the lock to a second owner. Durable masters vote at once.
    :param interop: "redisson": locks are shared with Java's `RLock`, and on N masters with its
        `RedissonRedLock` (docs/howto/redisson.md). Every client of these locks must say so; no fair locks.
    :raises OptionsError: no masters, one of them twice, or times that cannot work together.
    """

    _endpoint_type = Endpoint
    _lock_type = RLock

    def _set_up(self) -> None:
        self._mutex = threading.RLock()
        self._current: Engine | None = None

    def adopt(self, handle: str, **options: Any) -> RLock:
        """The lock of a handle, held by the calling thread: with the count and the fencing token that it had.

        Of several callers with one handle one gets it. Two round trips.

        :param handle: the text that `RLock.detach` has returned, in any process.
        :param options: those of `lock`; a handle has none of them.
        :raises LeaseLostError: it was adopted, released or evicted before, or has lapsed; ``reason`` says.
        :raises QuorumUnreachableError: too few masters answered or may vote, or another caller may still
            give it back. Try again. It is lost only if masters run this later, and cannot be told to undo it.
        :raises OptionsError: the text is no handle, or was made on another number of masters.
        """
        return run(adopt_gen(self, handle, options))  # type: ignore[no-any-return]

    def status(self, name: str) -> LockStatus:
        """The holder of a lock, since when, for how long, and each master's view. One round to all, or two.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        engine = self._engine()
        return engine.perform(inspect.status(engine.masters, check_name(name), engine.timeout))

    def evict(self, name: str) -> list[str]:
        """Remove every holder of a lock; returns the removed owner tokens. Two rounds to all.

        The holder learns of it with its next renewal, within a third of its ttl, and works on until then.
        Masters refuse to heal an evicted hold. It comes back only if a quorum of them loses its memory before
        that renewal. A group does not wait for its replicas here, and one that fails over at this moment may
        still have it: look again afterwards.

        :raises QuorumUnreachableError: fewer than a quorum answered, or removed it: it may go on.
        """
        engine = self._engine()
        return engine.perform(inspect.evict(engine.masters, check_name(name), engine.timeout))

    def init(self) -> dict[str, str | None]:
        """State that nothing was locked before: lifts the restart guard of every master that answers.

        For a new fleet. On a fleet in use it removes the guard's protection: leases that a restarted master
        has forgotten may still be valid, and fencing tokens go on from the masters' clocks. It lasts until a
        master restarts, and counts for all clients, also for those that already wait. Two rounds to all.

        Returns each master's name, with None when its votes count from now on, or else with the reason.

        :raises OptionsError: ``restart_guard=0`` has turned the guard off.
        """
        engine = self._engine()
        return engine.perform(inspect.init(engine.masters, engine.timeout))

    def close(self) -> None:
        """Release every hold, end all threads and connections. Waiting acquires end with `RLockError`.

        It waits for calls of `on_lost` that are due, up to a second. A second call does nothing, or the rest
        after Ctrl-C. The end of the process closes every client.
        """
        self._closed = True  # first: an engine that is made meanwhile is closed at once
        engine = self._here()
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _here(self) -> Engine | None:
        engine = self._current
        return None if engine is None or engine.pid != os.getpid() else engine

    def _engine(self) -> Engine:
        engine = self._current
        if engine is None or engine.pid != os.getpid():
            return self._new_engine()
        if engine.get_ident is not threading.get_ident:
            check_patches()
            raise OptionsError(PATCHED_TOO_LATE)
        if engine.hub_thread and engine.hub_thread != threading.get_native_id():
            raise OptionsError(OTHER_NATIVE_THREAD)
        return engine

    def _new_engine(self) -> Engine:
        with self._mutex:
            engine = self._current
            if engine is not None and engine.pid == os.getpid():
                return engine  # another thread was faster
            if engine is not None:
                engine.abandon()  # the parent's: a fork in C calls no hook
            check_patches()
            try:
                fresh = Engine(self._endpoints, self._options)
                fresh.holds.client = weakref.ref(self)
            except OSError as error:
                raise RLockError(f"no master was asked: {error}") from error
            if self._current is not None and self._current is not engine:
                fresh.abandon()  # a signal handler or a finalizer was faster
                return self._current
            engine = self._current = fresh
            _close_at_the_end_of_a_child()
            if self._closed:
                engine.close()  # is_owned() and the like still answer: nothing is held
            return engine

    def _after_fork(self) -> None:
        # A new mutex: if another thread of the parent held the old one, no thread of the child releases it.
        self._mutex = threading.RLock()
        engine, self._current = self._current, None
        if engine is not None:
            engine.abandon()


def _after_fork_in_child() -> None:
    for client in list(clients.values()):
        client._after_fork()
    for engine in list(Engine.holding):
        engine.abandon()  # its client was collected, and its holds belong to the parent
    Engine.holding.clear()


def _at_exit() -> None:
    # A lock that the process still holds would block the other processes for a ttl.
    for client in list(clients.values()):
        if isinstance(client, Client):
            client.close()
    for engine in list(Engine.holding):
        if engine.pid == os.getpid():
            engine.close()


#: The pid of the multiprocessing child that has registered its finalizer.
_child = 0


def _close_at_the_end_of_a_child() -> None:
    # A forked child of multiprocessing runs no atexit function, only the finalizers of its own.
    global _child
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _child == os.getpid():
        return
    _child = os.getpid()
    from multiprocessing.util import Finalize

    Finalize(None, _at_exit, exitpriority=0)


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
