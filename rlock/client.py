"""Client: the masters, and what all locks on them share."""

from __future__ import annotations

import atexit
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import redis

from . import clock
from ._sync.engine import Engine
from ._sync.masters import endpoints
from .errors import LeaseLostError, RLockError
from .lock import RLock
from .model import LockStatus
from .procedures import inspect
from .procedures.guarding import vouch
from .rules.options import DEFAULT_TTL, ClientOptions, LockOptions, check_name, from_env

if TYPE_CHECKING:
    from typing_extensions import Self

    from .rules.holds import Hold

#: By identity, so that a pickled lock finds its client again, or one copy of it in another process.
_clients: weakref.WeakValueDictionary[str, Client] = weakref.WeakValueDictionary()


class Client:
    """Locks on N independent masters; N = 1 is first class, 3 and 5 survive the loss of 1 and 2.

    :param masters: URLs (``redis://``, ``rediss://``, ``unix://``) or ready ``redis.Redis`` objects, of
        which the connection settings are taken. Every process that shares a lock must name the same.
    :param ttl: length of a lease in seconds. It is renewed each third of it; after a crash the lock is
        free within it.
    :param max_ttl: the longest ttl of any client of the fleet, in seconds; one value everywhere.
    :param request_timeout: seconds to wait for one master; default: 0.5, or a sixth of a shorter ttl.
    :param restart_guard: for how many seconds a master that restarted or was flushed has no vote, because
        leases that it has forgotten may still be valid; default: what ``max_ttl`` asks for, 11.1 for 10.
        0: none, so a restart can give the lock to a second owner. Masters with ``appendonly yes`` and
        ``appendfsync always`` forget nothing, and are waited for in no case.
    :raises OptionsError: no masters, one of them twice, or times that cannot work together.

    Nothing is connected before the first use. Thread-safe; after ``fork()`` the child holds nothing and
    makes connections of its own.
    """

    def __init__(
        self,
        masters: Sequence[str | redis.Redis] | str | redis.Redis,
        ttl: float = DEFAULT_TTL,
        *,
        max_ttl: float = DEFAULT_TTL,
        request_timeout: float | None = None,
        restart_guard: float | None = None,
    ) -> None:
        self._endpoints = endpoints(masters)
        self._options = ClientOptions(ttl, max_ttl, request_timeout, restart_guard)
        self._id = uuid.uuid4().hex
        self._mutex = threading.Lock()
        self._closed = False
        self._current: Engine | None = None
        _clients[self._id] = self

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Self:
        """A client out of RLOCK_MASTERS, and RLOCK_TTL, _MAX_TTL, _REQUEST_TIMEOUT, _RESTART_GUARD.

        RLOCK_MASTERS holds URLs, separated by commas or blanks; ``options`` go before the environment.
        """
        masters, found = from_env(os.environ if environ is None else environ)
        return cls(masters, **{**found, **options})

    @property
    def masters(self) -> list[str]:
        """The masters' names, without user and password."""
        return [endpoint.label for endpoint in self._endpoints]

    @property
    def ttl(self) -> float:
        """Length of a lease in seconds."""
        return self._options.ttl

    def lock(
        self,
        name: str,
        *,
        fair: bool = False,
        ttl: float | None = None,
        renew: bool = True,
        on_lost: Callable[[LeaseLostError], object] | None = None,
        max_hold: float | None = None,
    ) -> RLock:
        """The lock of this name. No network.

        :param fair: first come, first served, by tickets that are the same on every master, across
            threads, processes and machines. Without it one who comes at the right moment may take a
            free lock before those who wait, and threads of one process may pass it among themselves a
            few times. Both kinds stand in one queue, and are safe together.
        :param ttl: seconds, if not the client's.
        :param renew: False: a fixed lease that ends after ``ttl``, however long the work takes.
        :param on_lost: called once with a `LeaseLostError`, in a thread of its own, when a hold is lost.
        :param max_hold: seconds after which a hold is renewed no more; it ends with its lease.
        :raises OptionsError: with what is wrong and what to do.
        """
        return RLock(self, LockOptions(name, self._options.lease(ttl), renew, on_lost, max_hold, fair))

    def status(self, name: str) -> LockStatus:
        """Who holds a lock, since when, for how long, and what each master says. One round to all.

        Raises `QuorumUnreachableError` when fewer than a quorum answered.
        """
        engine = self._engine()
        return engine.perform(inspect.status(engine.terms, check_name(name), self._timeout))

    def evict(self, name: str) -> list[str]:
        """Remove whoever holds a lock; the owner tokens that were removed. Two rounds to all.

        The holder learns of it with its next renewal, within a third of its ttl; until then it works on.
        It cannot come back: masters refuse to heal an evicted hold.
        Raises `QuorumUnreachableError` when fewer than a quorum answered.
        """
        engine = self._engine()
        return engine.perform(inspect.evict(engine.terms, check_name(name), self._timeout))

    def init(self) -> dict[str, str | None]:
        """State that nothing was locked before: lifts the restart guard of every master that answers.

        For a fleet that is new. On one that is in use it takes the guard's protection away: leases that a
        restarted master has forgotten may still be valid. Holds for the masters' present lives and for all
        clients, those included that are waiting. Two rounds to all.

        Answer: each master's name, with None, or with what was wrong with it.
        """
        engine = self._engine()
        return engine.perform(vouch(engine.terms, self._timeout))

    @property
    def _timeout(self) -> float:
        return self._options.lease(None).request_timeout

    def close(self) -> None:
        """Release what is held, end all threads and connections. Waiting acquires end with `RLockError`."""
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

    def _hold(self, name: str) -> Hold | None:
        """The calling thread's hold. Without an engine there is none; none is made to find that out."""
        engine = self._current
        return None if engine is None or engine.pid != os.getpid() else engine.hold(name)

    def _engine(self) -> Engine:
        """This process's engine; a fork that bypassed the hooks is noticed here."""
        engine = self._current
        if engine is not None and engine.pid == os.getpid():
            return engine
        with self._mutex:
            engine = self._current
            if engine is not None and engine.pid != os.getpid():
                engine.abandon()
                engine = None
            if engine is None:
                try:
                    engine = self._current = Engine(self._endpoints, self._options, clock.now)
                except OSError as error:
                    raise RLockError(f"nothing was asked for: {error}") from error
                if self._closed:
                    engine.close()  # it answers what needs no network: nothing is held
            return engine

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the mutex; here nobody would ever release it.
        self._mutex = threading.Lock()
        engine, self._current = self._current, None
        if engine is not None:
            engine.abandon()

    def __reduce__(self) -> tuple[Any, ...]:
        sources = [endpoint.source for endpoint in self._endpoints]
        if not all(isinstance(source, str) for source in sources):
            raise TypeError("a client made of redis.Redis objects cannot be pickled: give it URLs")
        options = self._options
        return _client, (type(self), self._id, sources, options)

    def __repr__(self) -> str:
        return f"<rlock.Client {', '.join(self.masters)} ttl={self.ttl:g}>"


def _client(kind: type[Client], ident: str, masters: list[str], options: ClientOptions) -> Client:
    """The client of this identity: the one that is here, or a copy of it."""
    known = _clients.get(ident)
    if known is not None:
        return known
    client = kind(
        masters,
        options.ttl,
        max_ttl=options.max_ttl,
        request_timeout=options.request_timeout,
        restart_guard=options.restart_guard,
    )
    client._id = ident
    return _clients.setdefault(ident, client)


def _after_fork_in_child() -> None:
    for client in list(_clients.values()):
        client._after_fork()
    for engine in list(Engine.holding):
        engine.abandon()  # its client is gone; the hold is the parent's


def _at_exit() -> None:
    # What a process still holds when it ends would block the others for a ttl.
    for client in list(_clients.values()):
        client.close()
    for engine in list(Engine.holding):
        if engine.pid == os.getpid():
            engine.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
