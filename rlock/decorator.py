"""locked: a function that runs while it holds a lock."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import clock
from .decorated import Answering, LockWords, Name, OnLost, Skipping, Source, Sure
from .errors import LockBusyError, OptionsError
from .rules.name_templates import described, name_from
from .rules.options import ClientOptions, LockOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .lock import RLock

log = logging.getLogger("rlock")

B = TypeVar("B")

#: What ``on_busy`` may be beside a callable.
SKIP, RAISE = "skip", "raise"


@overload
def locked(
    client: Source,
    name: Name,
    *,
    blocking: Literal[True] = True,
    timeout: float = -1,
    on_busy: None = None,
    **options: Unpack[LockWords],
) -> Sure: ...
@overload
def locked(
    client: Source,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Literal["raise"],
    **options: Unpack[LockWords],
) -> Sure: ...
@overload
def locked(
    client: Source,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Literal["skip"] | None = None,
    **options: Unpack[LockWords],
) -> Skipping: ...
@overload
def locked(
    client: Source,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Callable[..., Coroutine[Any, Any, B]],
    **options: Unpack[LockWords],
) -> Answering[B]: ...
@overload
def locked(
    client: Source,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Callable[..., B],
    **options: Unpack[LockWords],
) -> Answering[B]: ...
def locked(
    client: Source,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Literal["skip", "raise"] | Callable[..., Any] | None = None,
    fair: bool = False,
    ttl: float | None = None,
    renew: bool = True,
    on_lost: OnLost = None,
    max_hold: float | None = None,
) -> Any:
    """Decorate a function or coroutine function: its body runs while the caller holds a lock, or not at all.

    ::

        @rlock.locked(client, "report:{user_id}", blocking=False)
        def report(user_id): ...

    A lease cannot exclude a paused holder. The body is not stopped when the lease is lost while it runs: it
    asks ``function.lock(...).check()`` before what must not be done twice, with the arguments of the call (of
    a method: with ``self``, too).

    The call raises `LockBusyError` (a ``TimeoutError``) as above; `QuorumUnreachableError`, which never
    counts as busy; `LeaseLostError` when the body has ended, and the lease before it: its result is dropped.
    An exception of the body is never replaced. Nested calls under one name do not wait.

    The function keeps its name, signature and kind, and is itself at ``function.__wrapped__``;
    ``function.lock(...)`` is the lock of a call, and costs no network. A call costs what acquire and
    release do, one round trip each; a nested one costs none.

    :param client: an ``rlock.Client`` for functions, an ``rlock.asyncio.Client`` for coroutine functions; or
        what returns one, called without arguments at the first use in the process, once for all functions
        that are given the same: ``rlock.Client.from_env``.
    :param name: the lock's name, as a template for ``str.format`` over the parameters, defaults included:
        ``"report:{user_id}"``, ``"{order.id}"``, ``"{self.shard}"``, ``"{args[0]}"``. Or what returns it,
        called with the arguments.
    :param blocking: False: one round to the masters decides, and a busy lock means that the call is skipped:
        it returns None, which is logged at INFO.
    :param timeout: seconds to wait at the most, -1: as long as it takes. When it is over: `LockBusyError`.
    :param on_busy: what a busy lock means, if not that: "skip", "raise", or what is called with the arguments
        and gives the call's result.
    :param fair: this one and those below as for ``client.lock``.
    :param ttl: seconds.
    :param renew: False: a fixed lease.
    :param on_lost: called once when the hold is lost.
    :param max_hold: seconds.
    :raises OptionsError: at decoration, or at the call for what is known only then: it says what to do.
    """
    options = {"fair": fair, "ttl": ttl, "renew": renew, "on_lost": on_lost, "max_hold": max_hold}
    source = _Source(client)
    plan = _Plan(source, name, blocking, timeout, _mode(blocking, timeout, on_busy), options)
    plan.check_options()
    return functools.partial(_decorate, plan)


def _mode(blocking: object, timeout: object, on_busy: object) -> Any:
    """What a busy lock means, out of arguments that fit together."""
    if not isinstance(blocking, bool):
        raise OptionsError(f"blocking must be True or False, not {blocking!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise OptionsError(f"timeout must be a number of seconds, or -1, not {timeout!r}")
    if timeout != -1 and not timeout >= 0:
        raise OptionsError(f"timeout must be 0 s or more, or -1 for as long as it takes, not {timeout!r}")
    if timeout > threading.TIMEOUT_MAX:
        raise OptionsError(f"timeout={timeout:g} s is over threading.TIMEOUT_MAX: use -1 for no limit")
    if not blocking and timeout != -1:
        raise OptionsError(
            f"blocking=False does not wait, so timeout={timeout:g} has no meaning: give one of the two"
        )
    if on_busy is None:
        return RAISE if blocking else SKIP
    if on_busy not in (SKIP, RAISE) and not callable(on_busy):
        raise OptionsError(f"on_busy must be 'skip', 'raise' or callable, not {on_busy!r}")
    if blocking and timeout == -1:
        raise OptionsError(
            "on_busy is never used by a lock that waits as long as it takes: add blocking=False or a timeout"
        )
    return on_busy


_made: dict[Callable[[], Any], Any] = {}
#: What tests use in the place of a client, or of what makes one (`rlock.testing.use`).
instead: dict[Any, Any] = {}
_making = threading.Lock()


def _after_fork_in_child() -> None:
    # Another thread of the parent may have been making a client; here nobody would ever release it.
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class _Source:
    """A client, or what makes one."""

    def __init__(self, client: Any) -> None:
        self._given = client
        self._factory: Callable[[], Any] | None = None
        self.known: Any = None
        if _is_client(client):
            self.known = client
        elif callable(client) and not inspect.iscoroutinefunction(client) and not isinstance(client, type):
            self._factory = client
        else:
            raise OptionsError(f"locked() needs a client, or what returns one when called: not {client!r}")

    def client(self) -> Any:
        """The client; made now if it is the first use."""
        if instead and self._given in instead:
            return instead[self._given]
        if self._factory is None:
            return self.known
        made = _made.get(self._factory)
        if made is not None:
            return made
        # Two clients exclude each other in one thread: one for each factory, whoever comes first.
        with _making:
            client = _made.get(self._factory)
            if client is None:
                client = self._factory()
                if not _is_client(client):
                    raise OptionsError(f"{self._factory!r} must return a client, not {client!r}")
                _made[self._factory] = client
        return client


def _is_client(client: object) -> bool:
    return not isinstance(client, type) and callable(getattr(client, "lock", None))


def _is_asynchronous(client: object) -> bool:
    return hasattr(type(client), "__aenter__")


class _Plan:
    """The checked arguments of one decorator."""

    def __init__(
        self,
        source: _Source,
        name: Any,
        blocking: bool,
        timeout: float,
        on_busy: Any,
        options: dict[str, Any],
    ) -> None:
        self.source = source
        self.name = name
        self.blocking = blocking
        self.timeout = timeout
        self.on_busy = on_busy
        self.options = options

    def check_options(self) -> None:
        """What is wrong with the lock's options is said where the function is, not at its first call."""
        if self.source.known is not None:
            self.source.known.lock("name", **self.options)
            return
        ttl = self.options["ttl"]
        lease = (ClientOptions() if ttl is None else ClientOptions(ttl, max_ttl=ttl)).lease(ttl)
        LockOptions("name", **{**{k: v for k, v in self.options.items() if k != "ttl"}, "lease": lease})

    def check_kind(self, function: Any, client: Any, coroutine: bool) -> None:
        """A function cannot await, and a coroutine function must not block the event loop."""
        if _is_asynchronous(client) == coroutine:
            return
        if coroutine:
            raise OptionsError(
                f"{described(function)} is a coroutine function, and an rlock.Client would block its event "
                f"loop: give it an rlock.asyncio.Client"
            )
        raise OptionsError(
            f"{described(function)} is a function, and only a coroutine function can await an "
            f"rlock.asyncio.Client: give it an rlock.Client, or make it `async def`"
        )

    def busy(self, function: Any, name: str, waited_s: float, args: Any, kwargs: Any) -> Any:
        """The call's result when somebody else has the lock."""
        if self.on_busy == RAISE:
            raise LockBusyError(name, waited_s)
        if self.on_busy == SKIP:
            log.info("lock %r is held by another owner: %s was skipped", name, described(function))
            return None
        return self.on_busy(*args, **kwargs)


def _decorate(plan: _Plan, function: Any) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_decorate(plan, function.__func__))
    if isinstance(function, type) or not callable(function):
        raise OptionsError(f"locked() decorates functions and methods, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise OptionsError(
            f"{described(function)} is a generator: the lock would be released before its first item is "
            f"made; use `with client.lock(...)` inside it, or decorate the function that uses it up"
        )
    coroutine = inspect.iscoroutinefunction(function)
    if plan.source.known is not None:
        plan.check_kind(function, plan.source.known, coroutine)
    if not coroutine and inspect.iscoroutinefunction(plan.on_busy):
        raise OptionsError(f"{described(function)} is a function, and cannot await on_busy={plan.on_busy!r}")
    name_of = name_from(plan.name, function)

    def lock(*args: Any, **kwargs: Any) -> Any:
        client = plan.source.client()
        plan.check_kind(function, client, coroutine)
        return client.lock(name_of(args, kwargs), **plan.options)

    made = _coroutine_wrapper(plan, function, lock) if coroutine else _wrapper(plan, function, lock)
    made.lock = lock
    with contextlib.suppress(TypeError, ValueError):
        # What wraps() leaves is not followed by everybody: Celery checks a task's arguments without it.
        made.__signature__ = inspect.signature(function)
    return made


def _wrapper(plan: _Plan, function: Any, lock_of: Callable[..., RLock]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        lock = lock_of(*args, **kwargs)
        with _Attempt(lock, plan) as attempt:
            if attempt.taken:
                result = function(*args, **kwargs)
                if inspect.iscoroutine(result):
                    result.close()
                    raise OptionsError(
                        f"{described(function)} returned a coroutine, which would run without the lock: put "
                        f"locked() directly above its `async def`, with an rlock.asyncio.Client"
                    )
                return result
        return plan.busy(function, lock.name, attempt.waited_s, args, kwargs)

    return wrapper


def _coroutine_wrapper(plan: _Plan, function: Any, lock_of: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        lock = lock_of(*args, **kwargs)
        async with _AsyncAttempt(lock, plan) as attempt:
            if attempt.taken:
                return await function(*args, **kwargs)
        answer = plan.busy(function, lock.name, attempt.waited_s, args, kwargs)
        return await answer if isinstance(answer, Awaitable) else answer

    return wrapper


class _Attempt:
    """`with` around a lock that one may not get: ``taken`` says whether."""

    def __init__(self, lock: RLock, plan: _Plan) -> None:
        self._lock = lock
        self._plan = plan
        self.taken = False
        self.waited_s = 0.0

    def __enter__(self) -> _Attempt:
        lock, plan = self._lock, self._plan
        before, began_at = lock.hold_count, clock.now()
        try:
            self.taken = lock.acquire(plan.blocking, plan.timeout)
            if plan.blocking:
                self.waited_s = clock.now() - began_at
        except BaseException:
            # Ctrl-C on the way out of acquire: `with` will call no __exit__.
            if lock.hold_count > before:
                lock.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.taken:
            self._lock.__exit__(kind, error, traceback)


class _AsyncAttempt:
    """The same for tasks."""

    def __init__(self, lock: Any, plan: _Plan) -> None:
        self._lock = lock
        self._plan = plan
        self.taken = False
        self.waited_s = 0.0

    async def __aenter__(self) -> _AsyncAttempt:
        began_at = clock.now()
        self.taken = await self._lock.acquire(self._plan.blocking, self._plan.timeout)
        if self._plan.blocking:
            self.waited_s = clock.now() - began_at
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.taken:
            await self._lock.__aexit__(kind, error, traceback)
