"""Client: the masters, and what all locks on them share."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import redis

from . import clock
from ._client.endpoints import Endpoint as BaseEndpoint
from ._sync.endpoints import Endpoint
from ._sync.engine import Engine
from ._sync.greenlets import OTHER_NATIVE_THREAD, PATCHED_TOO_LATE, check_patches
from .base import BaseClient, clients
from .errors import OptionsError, RLockError
from .lock import RLock
from .model import LockStatus
from .procedures import inspect
from .procedures.init import init
from .rules.options import DEFAULT_TTL, check_name

if TYPE_CHECKING:
    from typing_extensions import Self


class Client(BaseClient[RLock]):
    """Locks on N independent masters; N = 1 is first class, 3 and 5 survive the loss of 1 and 2.

    Nothing is connected before the first use. Thread-safe; after ``fork()`` the child holds nothing and
    makes connections of its own.

    :param masters: URLs (``redis://``, ``rediss://``, ``unix://``) or ready ``redis.Redis`` objects, of
        which the connection settings are taken. Every process that shares a lock must name the same.
    :param ttl: length of a lease in seconds, 10 by default. It is renewed each third of it; after a crash
        the lock is free within it.
    :param max_ttl: the longest ttl of any client of the fleet, in seconds; one value everywhere. Default:
        10; with ``interop`` 30, the lease of a Redisson that is not configured otherwise.
    :param request_timeout: seconds to wait for one master; default: 0.5, or a sixth of a shorter ttl.
    :param restart_guard: for how many seconds a master that restarted or was flushed has no vote, because
        leases that it has forgotten may still be valid; default: what ``max_ttl`` asks for, 11.1 for 10.
        0: none, so a restart can give the lock to a second owner. Masters with ``appendonly yes`` and
        ``appendfsync always`` forget nothing, and are waited for in no case.
    :param interop: "redisson": locks are shared with Java's `RLock`, and on N masters its
        `RedissonRedLock` (docs/howto/redisson.md). Every client of these locks must say so; no fair locks.
    :raises OptionsError: no masters, one of them twice, or times that cannot work together.
    """

    _kind = Endpoint
    _lock = RLock

    def __init__(
        self,
        masters: Sequence[str | redis.Redis | BaseEndpoint] | str | redis.Redis | BaseEndpoint,
        ttl: float = DEFAULT_TTL,
        *,
        max_ttl: float | None = None,
        request_timeout: float | None = None,
        restart_guard: float | None = None,
        interop: str | None = None,
    ) -> None:
        self._mutex = threading.Lock()
        self._current: Engine | None = None
        super().__init__(
            masters,
            ttl,
            max_ttl=max_ttl,
            request_timeout=request_timeout,
            restart_guard=restart_guard,
            interop=interop,
        )

    def status(self, name: str) -> LockStatus:
        """Who holds a lock, since when, for how long, and what each master says. One round to all.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        engine = self._engine()
        return engine.perform(inspect.status(engine.masters, check_name(name), self._timeout))

    def evict(self, name: str) -> list[str]:
        """Remove whoever holds a lock; the owner tokens that were removed. Two rounds to all.

        The holder learns of it with its next renewal, within a third of its ttl; until then it works on.
        It cannot come back: masters refuse to heal an evicted hold.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        engine = self._engine()
        return engine.perform(inspect.evict(engine.masters, check_name(name), self._timeout))

    def init(self) -> dict[str, str | None]:
        """State that nothing was locked before: lifts the restart guard of every master that answers.

        For a fleet that is new. On one that is in use it takes the guard's protection away: leases that a
        restarted master has forgotten may still be valid. Holds for the masters' present lives and for all
        clients, those included that are waiting. Two rounds to all.

        Answer: each master's name, with None when it has its vote from now on, or with what was wrong
        with it.

        :raises OptionsError: ``restart_guard=0`` has turned the guard off.
        """
        engine = self._engine()
        return engine.perform(init(engine.masters, self._timeout))

    def close(self) -> None:
        """Release what is held, end all threads and connections. Waiting acquires end with `RLockError`.

        A second time: nothing. Called by itself at the end of the process.
        """
        with self._mutex:
            self._closed = True
            engine = self._current
        if engine is not None and engine.pid == os.getpid():
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _here(self) -> Engine | None:
        engine = self._current
        return None if engine is None or engine.pid != os.getpid() else engine

    def _engine(self) -> Engine:
        """This process's engine; a fork that bypassed the hooks is noticed here."""
        engine = self._current
        if engine is not None and engine.pid == os.getpid():
            if engine.get_ident is not threading.get_ident:
                check_patches()
                raise OptionsError(PATCHED_TOO_LATE)
            if engine.hub_thread and engine.hub_thread != threading.get_native_id():
                raise OptionsError(OTHER_NATIVE_THREAD)
            return engine
        with self._mutex:
            engine = self._current
            if engine is not None and engine.pid != os.getpid():
                engine.abandon()
                engine = None
            if engine is None:
                check_patches()
                try:
                    engine = self._current = Engine(self._endpoints, self._options, clock.now)
                except OSError as error:
                    raise RLockError(f"nothing was asked for: {error}") from error
                _free_at_the_end_of_a_child()
                if self._closed:
                    engine.close()  # it answers what needs no network: nothing is held
            return engine

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the mutex; here nobody would ever release it.
        self._mutex = threading.Lock()
        engine, self._current = self._current, None
        if engine is not None:
            engine.abandon()


def _after_fork_in_child() -> None:
    for client in list(clients.values()):
        client._after_fork()
    for engine in list(Engine.holding):
        engine.abandon()  # its client is gone; the hold is the parent's


def _at_exit() -> None:
    # What a process still holds when it ends would block the others for a ttl.
    for client in list(clients.values()):
        if isinstance(client, Client):
            client.close()
    for engine in list(Engine.holding):
        if engine.pid == os.getpid():
            engine.close()


#: The process that has seen to it.
_child = 0


def _free_at_the_end_of_a_child() -> None:
    # A forked child of multiprocessing ends with os._exit, which calls no atexit; what it calls are the
    # finalizers that were made in the child. It is one if the parent's module says so.
    global _child
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _child == os.getpid():
        return
    _child = os.getpid()
    from multiprocessing.util import Finalize

    Finalize(None, _at_exit, exitpriority=0)


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
