"""The parts of clients and locks that threads and tasks share. No method here asks a master."""

import os
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from ._client.endpoints import Endpoint, Group, endpoints
from .errors import LeaseLostError, OptionsError, RLockError
from .events import log
from .model import AnyLock, ReadWriteLock
from .rules.options import DEFAULT_TTL, REDISSON_TTL, ClientOptions, LockOptions, check_callback, from_env

#: By the client's id. All locks that are unpickled in one process share one client, and so nest.
clients: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

RedisClient = TypeVar("RedisClient")
AnySemaphore = TypeVar("AnySemaphore")
AnyLocks = TypeVar("AnyLocks")
AnyLeader = TypeVar("AnyLeader")
OnLost = Callable[[LeaseLostError], object] | None
Names = Iterable[str]


class BaseClient(ABC, Generic[AnyLock, RedisClient, AnySemaphore, AnyLocks, AnyLeader]):
    """The masters and the options of a client; see `rlock.Client`."""

    _endpoint_type: ClassVar[type[Endpoint]]
    _lock_type: ClassVar[type[Any]]
    _prefix = ""  # of the names of the recipes' classes

    def __init__(
        self,
        masters: Sequence[str | RedisClient | Group | Endpoint] | str | RedisClient | Group | Endpoint,
        ttl: float = DEFAULT_TTL,
        *,
        max_ttl: float | None = None,
        request_timeout: float | None = None,
        restart_guard: float | None = None,
        interop: str | None = None,
    ) -> None:
        self._endpoints: Sequence[Any] = endpoints(masters, self._endpoint_type)
        if max_ttl is None:
            max_ttl = REDISSON_TTL if interop else DEFAULT_TTL
        self._options = ClientOptions(ttl, max_ttl, request_timeout, restart_guard, interop)
        self._id = uuid.uuid4().hex
        self._closed = False
        self._set_up()
        # Last: otherwise the hook of a fork in another thread could find a client without its fields.
        clients[self._id] = self

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Self:
        """A client from RLOCK_MASTERS, and RLOCK_TTL, _MAX_TTL, _REQUEST_TIMEOUT, _RESTART_GUARD, _INTEROP.

        RLOCK_MASTERS holds URLs, separated by commas or blanks. An option that is given here overrides the
        environment.

        :raises OptionsError: RLOCK_MASTERS is not set, or an option cannot have the value of its variable.
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
        on_lost: OnLost = None,
        max_hold: float | None = None,
        hold_at_least: float = 0.0,
    ) -> AnyLock:
        """The lock of this name. No network.

        :param fair: first come, first served, across threads, processes and machines. Every master orders the
            waiters by the same tickets. Without ``fair`` a newcomer may take a free lock before the waiters
            do. Fair and other locks of one name share one queue and exclude each other.
        :param ttl: length of the lease in seconds, if not the client's.
        :param renew: False: a fixed lease that ends after ``ttl``, however long the work takes.
        :param on_lost: called once with a `LeaseLostError` when a hold is lost. A blocking client calls the
            callbacks of all its locks in one thread, one after another: a callback that blocks delays the
            others, and `close` by a second. With asyncio the event loop calls it; a coroutine function
            runs as a task.
        :param max_hold: seconds after which a hold is not renewed any more. It ends with its lease.
        :param hold_at_least: seconds from the acquire for which the lock stays taken, also after an earlier
            release and the end of the process: no other machine does the work again. At most ``max_ttl``.
            The outermost acquire decides. A process that is killed before its release, a thread or task that
            ends without one, and work that outlasts a lease with ``renew=False`` keep it for the lease only.
        :raises OptionsError: a value is impossible, or two options contradict each other.
        """
        if fair and self._options.interop:
            raise OptionsError(
                "a lock that is shared with Redisson cannot be fair: Redisson and rlock do not wait in one "
                "queue; leave fair=True out"
            )
        if not hasattr(type(self), "__aenter__"):
            check_callback("on_lost", on_lost)
        hold_at_least = self._options.kept("hold_at_least", hold_at_least, or_zero=True)
        lease = self._options.lease(ttl)
        options = LockOptions(name, lease, renew, on_lost, max_hold, fair, hold_at_least)
        return self._lock_type(self, options)  # type: ignore[no-any-return]

    def read_write_lock(
        self,
        name: str,
        *,
        fair: bool = True,
        ttl: float | None = None,
        renew: bool = True,
        on_lost: OnLost = None,
        max_hold: float | None = None,
    ) -> ReadWriteLock[AnyLock]:
        """The lock of this name for many readers or one writer: a writer excludes `lock`, too. No network.

        A waiting writer lets no later reader in. When a writer ends, the readers that wait go together. The
        writer may take the reader, too. A reader that asks for the writer gets an `UpgradeError`.

        :param fair: False: a writer may take the free lock before the waiters do. The rest is as for `lock`.
        """
        if self._options.interop:
            raise OptionsError("a read-write lock cannot be shared with Redisson: leave interop out")
        options = {"ttl": ttl, "renew": renew, "on_lost": on_lost, "max_hold": max_hold}
        writer: Any = BaseClient.lock(self, name, fair=fair, **options)  # type: ignore[arg-type]
        reader = replace(writer._options, fair=True, shared=True)
        return ReadWriteLock(self._lock_type(self, reader), writer)

    def semaphore(
        self, name: str, *, permits: int, fair: bool = False, ttl: float | None = None, on_lost: OnLost = None
    ) -> AnySemaphore:
        """The semaphore of this name: at most ``permits`` owners at a time. No network.

        Every user must give the same number of permits: the masters do not compare it.

        :param fair: first come, first served. Otherwise a newcomer may take a free permit first.
        :param on_lost: called once for each permit that is lost, see `lock`.
        :raises OptionsError: ``permits`` is no whole number of 1 or more, or as `lock`.
        """
        return self._recipe("semaphore", "Semaphore")(self, name, permits, fair, ttl, on_lost)  # type: ignore[no-any-return]

    def locks(
        self, names: Names, *, shared: Names = (), ttl: float | None = None, on_lost: OnLost = None
    ) -> AnyLocks:
        """Several locks as one: all of them or none. No network. See `lock` for ``ttl``.

        :param shared: further names, of which the caller is a reader: see `read_write_lock`.
        :param on_lost: called with the first `LeaseLostError` of a name.
        :raises OptionsError: no names, a name twice, or as `lock`.
        """
        return self._recipe("several", "Locks")(self, names, shared, ttl, on_lost)  # type: ignore[no-any-return]

    def leader(
        self,
        name: str,
        on_started: Callable[[int], object] | None = None,
        on_stopped: Callable[[], object] | None = None,
        ttl: float | None = None,
        fair: bool = False,
    ) -> AnyLeader:
        """A candidate for the one leader of its name: it campaigns from the begin of ``with`` to the end.

        :param on_started: called with the fencing token when it leads. If it raises, the leader steps down.
        :param on_stopped: called when it leads no more. The lock is released when it has returned; after
            failed renewals it is called a quarter of ``ttl`` before the lease ends. Both are called by the
            campaign's thread or task, one after another: neither may block for longer than that.
        :param ttl: length of the lease in seconds, if not the client's.
        :param fair: first come, first served, as for `lock`.
        """
        return self._recipe("leader", "Leader")(self.lock(name, ttl=ttl, fair=fair), on_started, on_stopped)  # type: ignore[no-any-return]

    def _recipe(self, module: str, kind: str) -> Any:
        """A class for threads or tasks. Imported with its first use: few programs need it."""
        return getattr(import_module(f".recipes.{module}", __package__), self._prefix + kind)

    @abstractmethod
    def _set_up(self) -> None:
        """Make what belongs to this process (and, with asyncio, to its event loops)."""

    def __reduce__(self) -> tuple[Any, ...]:
        sources = [endpoint.source for endpoint in self._endpoints]
        if not all(isinstance(source, str) for source in sources):
            raise TypeError("a client made of ready objects cannot be pickled: give it URLs")
        return _unpickled, (type(self), self._id, sources, self._options)

    def __repr__(self) -> str:
        return f"<{public_name(self)} {', '.join(self.masters)} ttl={self.ttl:g}>"


def _unpickled(kind: Any, ident: str, masters: list[str], options: ClientOptions) -> Any:
    """The client with this id if this process has one, or else a copy of it."""
    if (known := clients.get(ident)) is not None:
        return known
    client = kind(masters, **asdict(options))
    client._id = ident
    return clients.setdefault(ident, client)


class AsyncLock(Protocol):
    """For annotations: an `RLock`, a semaphore or several names, whose methods are awaited."""

    __slots__ = ()

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...  # noqa: D102
    async def release(self) -> None: ...  # noqa: D102

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except RLockError as failure:
            raise_or_log(failure, error)


def raise_or_log(failure: RLockError, error: BaseException | None) -> None:
    """Log a failed release, and add it as a note to the exception of the body; without one, raise it."""
    if error is None:
        raise failure
    log.error("%s", failure)
    error.add_note(f"rlock: {failure}")


def public_name(made: object) -> str:
    """The name that users import: `rlock.RLock`, not `rlock.lock.RLock`."""
    kind = type(made)
    return f"{kind.__module__.removesuffix('.client').removesuffix('.lock')}.{kind.__name__}"
