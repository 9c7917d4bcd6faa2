"""The parts of clients and locks that threads and tasks share. No method here asks a master."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from ._client.endpoints import Endpoint, Group, endpoints
from .errors import NOT_HELD, LeaseLostError, OptionsError, RLockError
from .events import log
from .model import AnyLock, LeaseState, ReadWriteLock
from .procedures.acquire import AT_ONCE, FOR_EVER
from .rules.options import DEFAULT_TTL, REDISSON_TTL, ClientOptions, LockOptions, check_callback, from_env

if TYPE_CHECKING:
    from ._client.engine import Engine
    from .rules.holds import Hold

#: By the client's id. All locks that are unpickled in one process share one client, and so nest.
clients: weakref.WeakValueDictionary[str, BaseClient[Any, Any]] = weakref.WeakValueDictionary()

RedisClient = TypeVar("RedisClient")
Signal = TypeVar("Signal")
OnLost = Callable[[LeaseLostError], object] | None
Names = Iterable[str]


class BaseClient(ABC, Generic[AnyLock, RedisClient]):
    """The masters and the options of a client; see `rlock.Client`."""

    _endpoint_type: ClassVar[type[Endpoint]]
    _lock_type: ClassVar[type[Any]]

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
            do, and threads of one process may pass the lock among themselves a few times. Fair and other
            locks of one name share one queue and exclude each other.
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

    @abstractmethod
    def _set_up(self) -> None:
        """Make what belongs to this process (and, with asyncio, to its event loops)."""

    @abstractmethod
    def _here(self) -> Engine | None:
        """The engine of this process (and event loop), if there is one already."""

    @abstractmethod
    def _after_fork(self) -> None:
        """In a forked child: drop what belongs to the parent."""

    def __reduce__(self) -> tuple[Any, ...]:
        sources = [endpoint.source for endpoint in self._endpoints]
        if not all(isinstance(source, str) for source in sources):
            raise TypeError("a client made of ready objects cannot be pickled: give it URLs")
        return _unpickled, (type(self), self._id, sources, self._options)

    def __repr__(self) -> str:
        return f"<{_public_name(self)} {', '.join(self.masters)} ttl={self.ttl:g}>"


def _unpickled(
    kind: type[BaseClient[Any, Any]], ident: str, masters: list[str], options: ClientOptions
) -> BaseClient[Any, Any]:
    """The client with this id if this process has one, or else a copy of it."""
    known = clients.get(ident)
    if known is not None:
        return known
    client = kind(masters, **asdict(options))
    client._id = ident
    return clients.setdefault(ident, client)


class BaseLock(Generic[Signal]):
    """The part of a lock that is the same for threads and tasks; see `rlock.RLock`."""

    __slots__ = ("__weakref__", "_client", "_options")

    _client: Any
    _signal_type: ClassVar[type[Any]]

    def __init__(self, client: Any, options: LockOptions | None = None) -> None:
        if options is None:
            raise TypeError("make locks with client.lock(name): a lock belongs to a client")
        self._client = client
        self._options = options

    @property
    def name(self) -> str:
        """The name that all users of this lock share."""
        return self._options.name

    def _hold(self) -> Hold | None:
        """The caller's hold. Makes no engine: without one there is no hold."""
        engine: Engine | None = self._client._here()
        return None if engine is None else engine.hold(self._options.hold_name)

    def _until(self, blocking: bool, timeout: float) -> float:
        """The instant at which an acquire gives up. Refuses the arguments that `threading.RLock` refuses."""
        if blocking is True and timeout == -1:
            return FOR_EVER
        if timeout is None:
            raise TypeError("timeout must be a number of seconds, or -1 to wait for ever, not None")
        # Only for its errors: they differ between versions of Python.
        threading.RLock().acquire(blocking, timeout)
        if not blocking:
            return AT_ONCE
        return FOR_EVER if timeout == -1 else self._client._engine().clock() + timeout

    def is_owned(self) -> bool:
        """Whether the caller holds the lock with validity left, at this moment. See `remaining`."""
        return self.remaining() > 0.0

    @property
    def hold_count(self) -> int:
        """The caller's unreleased acquires, also after a loss. No network."""
        hold = self._hold()
        return 0 if hold is None else hold.count

    def remaining(self) -> float:
        """Seconds of validity left to the caller; 0.0 when it does not hold the lock.

        Sends nothing. It may wait a moment for another thread that reads replies.
        """
        hold = self._hold()
        return 0.0 if hold is None else self._client._here().holds.remaining(hold)

    def check(self) -> None:
        """Raise `LeaseLostError` unless the caller holds the lock with validity left. Sends nothing.

        The answer may be out of date a moment later: the system can stop the caller right after this call.

        :raises LeaseLostError: the hold was lost, or the caller never had it; ``reason`` says which.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        if self._client._here().holds.state(hold) is LeaseState.LOST:
            raise LeaseLostError(self.name, hold.reason)

    @property
    def lost(self) -> Signal:
        """Set when the caller's present hold is lost: ``is_set()``, ``wait(timeout)`` (awaited with asyncio).

        Keep it in a variable to ask after the release. Without a hold the signal is never set.
        """
        engine = self._client._engine()
        hold = engine.hold(self._options.hold_name)
        signal: Signal = self._signal_type(engine.holds, [] if hold is None else [hold])
        # One step, without a mutex: a signal handler may ask as well, and both must get one signal.
        return signal if hold is None else vars(hold.report).setdefault("signal", signal)

    @property
    def fencing_token(self) -> int:
        """The number of the caller's hold: strictly greater for every later holder of this name.

        Nested acquires have the same token. Send the token to the resource with each access, and let the
        resource refuse a token below the highest one that it has seen (equal is allowed). This stops a holder
        that was paused until its lease had ended, which no lock can do. So the token can also be read after a
        loss.

        No network: the acquire itself agrees on the token. The order needs no clock and no lease while a
        quorum of masters remembers the last token, for an hour after the last use. After that it needs
        masters' clocks that were not set back; after a loss of memory, clocks that also differ by less than
        the time until the next acquire. The token fits into 53 bits: it is the masters' time in microseconds,
        or a little more.

        :raises LeaseLostError: the caller does not hold the lock.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        return hold.token

    def __reduce__(self) -> tuple[Any, ...]:
        if self._holders():
            raise TypeError(f"cannot pickle lock {self.name!r} while it is held: a hold stays in its process")
        return type(self), (self._client, self._options)

    def _holders(self) -> list[Hold]:
        engine = self._client._here()
        holds = [] if engine is None else engine.holds
        return [each for each in holds if each.options.hold_name == self._options.hold_name]

    def __repr__(self) -> str:
        valid = [hold for hold in self._holders() if self._client._here().holds.remaining(hold) > 0]
        holder = f" owner={valid[0].owner!r} count={valid[0].count}" if valid else ""
        state = "locked" if valid else "unlocked"
        return f"<{state} {_public_name(self)} object name={self.name!r}{holder} at {id(self):#x}>"


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
            if error is None:
                raise
            log_failed_release(failure, error)


def log_failed_release(failure: RLockError, error: BaseException) -> None:
    """Log a failed release, and add it as a note to the exception of the body, which is not replaced."""
    log.error("%s", failure)
    error.add_note(f"rlock: {failure}")


def _public_name(made: object) -> str:
    """The name that users import: `rlock.RLock`, not `rlock.lock.RLock`."""
    kind = type(made)
    return f"{kind.__module__.removesuffix('.client').removesuffix('.lock')}.{kind.__name__}"
