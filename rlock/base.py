"""What the blocking client and lock share with those for asyncio: all that needs no network."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from . import clock
from ._client.endpoints import Endpoint, endpoints
from .errors import NOT_HELD, LeaseLostError, OptionsError
from .model import LeaseState
from .procedures.acquire import AT_ONCE, FOR_EVER
from .rules.options import DEFAULT_TTL, REDISSON_TTL, ClientOptions, LockOptions, from_env

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._client.engine import Engine
    from .rules.holds import Hold

#: By identity, so that a pickled lock finds its client again, or one copy of it in another process.
clients: weakref.WeakValueDictionary[str, BaseClient[Any]] = weakref.WeakValueDictionary()

L = TypeVar("L")

#: Of which every time-out from 0 to `threading.TIMEOUT_MAX` is one for the standard library, too.
_NUMBERS = (int, float)
_LONGEST = threading.TIMEOUT_MAX


class BaseClient(ABC, Generic[L]):
    """The masters and the options of a client; see `rlock.Client`."""

    _kind: ClassVar[type[Endpoint]]
    _lock: ClassVar[type[Any]]

    def __init__(
        self,
        masters: Any,
        ttl: float = DEFAULT_TTL,
        *,
        max_ttl: float | None = None,
        request_timeout: float | None = None,
        restart_guard: float | None = None,
        interop: str | None = None,
    ) -> None:
        self._endpoints: Sequence[Any] = endpoints(masters, self._kind)
        if max_ttl is None:
            max_ttl = REDISSON_TTL if interop else DEFAULT_TTL
        self._options = ClientOptions(ttl, max_ttl, request_timeout, restart_guard, interop)
        self._id = uuid.uuid4().hex
        self._closed = False
        clients[self._id] = self

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Self:
        """A client out of RLOCK_MASTERS, and RLOCK_TTL, _MAX_TTL, _REQUEST_TIMEOUT, _RESTART_GUARD, _INTEROP.

        RLOCK_MASTERS holds URLs, separated by commas or blanks; ``options`` go before the environment.

        :raises OptionsError: RLOCK_MASTERS is not set, or a value is none that the option can have.
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
    ) -> L:
        """The lock of this name. No network.

        :param fair: first come, first served, by tickets that are the same on every master, across
            threads, processes and machines. Without it one who comes at the right moment may take a
            free lock before those who wait, and threads of one process may pass it among themselves a
            few times. Both kinds stand in one queue, and are safe together.
        :param ttl: seconds, if not the client's.
        :param renew: False: a fixed lease that ends after ``ttl``, however long the work takes.
        :param on_lost: called once with a `LeaseLostError` when a hold is lost; in a thread that calls those
            of all locks of a client one after another (one that blocks delays the others; `close` waits
            for none), or with asyncio by the event loop (a coroutine function as a task).
        :param max_hold: seconds after which a hold is renewed no more; it ends with its lease.
        :raises OptionsError: with what is wrong and what to do.
        """
        if fair and self._options.interop:
            raise OptionsError(
                "a lock that is shared with Redisson cannot be fair: its threads stand in no queue of ours, "
                "nor we in theirs; leave fair=True out"
            )
        options = LockOptions(name, self._options.lease(ttl), renew, on_lost, max_hold, fair)
        made: L = self._lock(self, options)
        return made

    @abstractmethod
    def _here(self) -> Engine | None:
        """The engine of this process (and event loop), if there is one already."""

    @abstractmethod
    def _after_fork(self) -> None:
        """In a forked child: forget what is the parent's."""

    def _now(self) -> float:
        engine = self._here()
        return clock.now() if engine is None else engine.clock()

    def _hold(self, name: str) -> Hold | None:
        """The caller's hold. Without an engine there is none; none is made to find that out."""
        engine = self._here()
        return None if engine is None else engine.hold(name)

    @property
    def _timeout(self) -> float:
        return self._options.lease(None).request_timeout

    def __reduce__(self) -> tuple[Any, ...]:
        sources = [endpoint.source for endpoint in self._endpoints]
        if not all(isinstance(source, str) for source in sources):
            raise TypeError("a client made of redis.Redis objects cannot be pickled: give it URLs")
        return _client, (type(self), self._id, sources, self._options)

    def __repr__(self) -> str:
        module = type(self).__module__.removesuffix(".client")
        return f"<{module}.Client {', '.join(self.masters)} ttl={self.ttl:g}>"


def _client(
    kind: type[BaseClient[Any]], ident: str, masters: list[str], options: ClientOptions
) -> BaseClient[Any]:
    """The client of this identity: the one that is here, or a copy of it."""
    known = clients.get(ident)
    if known is not None:
        return known
    client = kind(
        masters,
        options.ttl,
        max_ttl=options.max_ttl,
        request_timeout=options.request_timeout,
        restart_guard=options.restart_guard,
        interop=options.interop,
    )
    client._id = ident
    return clients.setdefault(ident, client)


class BaseLock:
    """What a lock can say without asking anybody; see `rlock.RLock`."""

    __slots__ = ("__weakref__", "_client", "_options")

    _client: Any

    def __init__(self, client: Any, options: LockOptions | None = None) -> None:
        if options is None:
            raise TypeError("make locks with client.lock(name): a lock belongs to a client")
        self._client = client
        self._options = options

    @property
    def name(self) -> str:
        """The name that all who share this lock use."""
        return self._options.name

    def _hold(self) -> Hold | None:
        hold: Hold | None = self._client._hold(self.name)
        return hold

    def _until(self, blocking: bool, timeout: float) -> float:
        """Until when to try."""
        if blocking is True:
            if timeout == -1:
                return FOR_EVER
            if type(timeout) in _NUMBERS and 0 <= timeout <= _LONGEST:
                now: float = self._client._now()
                return now + timeout
        if timeout is None:
            raise TypeError(
                "timeout must be a number of seconds, or -1 to wait as long as it takes, not None"
            )
        # A fresh lock of the standard library refuses what it refuses, in its own words.
        threading.RLock().acquire(blocking, timeout)
        if not blocking:
            return AT_ONCE
        return FOR_EVER if timeout == -1 else self._client._now() + timeout

    def is_owned(self) -> bool:
        """Whether the caller holds it with validity left, at this moment. No network."""
        return self.remaining() > 0.0

    @property
    def hold_count(self) -> int:
        """The caller's unreleased acquires, also after a loss. No network."""
        hold = self._hold()
        return 0 if hold is None else hold.count

    def remaining(self) -> float:
        """Seconds of validity left to the caller; 0.0 when it does not hold. No network."""
        hold = self._hold()
        return 0.0 if hold is None else hold.lease.remaining(self._client._now())

    def check(self) -> None:
        """Raise `LeaseLostError` unless the caller holds it with validity left. No network.

        What is true when it returns may be untrue a moment later: the caller can be stopped right behind it.

        :raises LeaseLostError: the hold was lost, or the caller never had it; ``reason`` says which.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        if hold.lease.state_at(self._client._now()) is LeaseState.LOST:
            raise LeaseLostError(self.name, hold.reason)

    @property
    def fencing_token(self) -> int:
        """The number of the caller's hold: strictly greater for every later holder of this name.

        Nested acquires have the same. Give it to the resource with each access, and have the resource
        refuse what is lower than the highest that it has seen (equal is allowed): that stops a holder
        that was paused until its lease was over, which no lock can. So it can be had after a loss, too.

        No network: it is agreed on while the lock is acquired, in the same round trip unless masters
        disagree. It rests on no clock and no lease, as long as a quorum of masters remembers the last token.
        They do for an hour; after it, the next one is above unless clocks are set back behind its end.
        After a loss of their memory it rests on their clocks being closer together than the time until the
        next acquire. It fits into 53 bits: the masters' time in microseconds, or a little more.

        :raises LeaseLostError: the caller does not hold the lock.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        return hold.token

    # -- the object --------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        if self._holders():
            raise TypeError(f"cannot pickle lock {self.name!r} while it is held: a hold stays in its process")
        return type(self), (self._client, self._options)

    def _holders(self) -> list[Hold]:
        engine = self._client._here()
        return [] if engine is None else [hold for hold in engine.holds if hold.name == self.name]

    def __repr__(self) -> str:
        now = self._client._now()
        valid = [hold for hold in self._holders() if hold.lease.remaining(now) > 0]
        told = f" owner={valid[0].owner!r} count={valid[0].count}" if valid else ""
        state, module = "locked" if valid else "unlocked", type(self).__module__.removesuffix(".lock")
        return f"<{state} {module}.RLock object name={self.name!r}{told} at {id(self):#x}>"
