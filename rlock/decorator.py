"""locked: a function that runs while it holds a lock."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from . import clock
from .decorated import (
    AsyncFallback,
    B,
    Fallback,
    MayReturnFallback,
    MayReturnNone,
    Name,
    OnLost,
    RaisesWhenBusy,
    Skip,
)
from .errors import LockBusyError, OptionsError
from .rules.name_templates import described, name_from
from .rules.options import ClientOptions, LockOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .decorated import Options
    from .lock import RLock

log = logging.getLogger("rlock")

#: The values of ``on_busy`` beside a callable.
SKIP, RAISE = "skip", "raise"


@overload
def locked(
    client: Any, name: Name, *, blocking: Literal[True] = ..., on_busy: None = ..., **options: Unpack[Options]
) -> RaisesWhenBusy: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: Literal["raise"], **options: Unpack[Options]
) -> RaisesWhenBusy: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: Skip = ..., **options: Unpack[Options]
) -> MayReturnNone: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: AsyncFallback[B], **options: Unpack[Options]
) -> MayReturnFallback[B]: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: Fallback[B], **options: Unpack[Options]
) -> MayReturnFallback[B]: ...
def locked(
    client: Any,
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

    A lease cannot exclude a paused holder, and a loss of the lease does not stop the body. Before a step that
    must not be done twice the body calls ``function.lock(...).check()``, with the arguments of the call (of
    a method: also ``self``).

    The call raises `LockBusyError` (a ``TimeoutError``) as said below. `QuorumUnreachableError`: too few
    masters answered, which never counts as busy. `LeaseLostError`: the lease ended before the body did, whose
    result is dropped. An exception of the body is never replaced. Nested calls under one name do not wait.

    The function keeps its name, signature and kind; ``function.__wrapped__`` is the original. A call costs an
    acquire and a release, one round trip each; ``function.lock(...)`` and a nested call cost none.

    :param client: an ``rlock.Client`` for functions, an ``rlock.asyncio.Client`` for coroutine functions. Or
        a function without parameters that returns one, such as ``rlock.Client.from_env``: it is called with
        the first use in the process, once for all decorators that name it.
    :param name: the lock's name, as a template for ``str.format`` over the parameters, defaults included:
        ``"report:{user_id}"``, ``"{order.id}"``, ``"{self.shard}"``, ``"{args[0]}"``. Or a function that
        returns the name, called with the arguments.
    :param blocking: False: one round to the masters decides. When the lock is busy the call is skipped: it
        returns None, and the log has a line at INFO.
    :param timeout: seconds to wait, then the call raises `LockBusyError`; -1: as long as it takes.
    :param on_busy: another behaviour when the lock is busy: "skip", "raise", or a function that is called
        with the arguments and gives the call's result.
    :param fair: and ``ttl``, ``renew``, ``on_lost``, ``max_hold``: as for ``client.lock``.
    :raises OptionsError: at decoration, or at the call if the fault is known only then: it says what to do.
    """
    options = {"fair": fair, "ttl": ttl, "renew": renew, "on_lost": on_lost, "max_hold": max_hold}
    source = _Source(client)
    plan = _Plan(source, name, blocking, timeout, _checked_on_busy(blocking, timeout, on_busy), options)
    plan.check_options()
    return functools.partial(_decorate, plan)


def _checked_on_busy(blocking: object, timeout: object, on_busy: object) -> Any:
    """The value of ``on_busy`` or its default; refuses arguments that do not fit together."""
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
#: The clients that tests put in the place of a client or of its factory (`rlock.testing.use`).
substitutes: dict[Any, Any] = {}
_making = threading.Lock()


def _after_fork_in_child() -> None:
    # Another thread of the parent may have held the lock: in the child nobody would ever release it.
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class _Source:
    """A client, or the factory of one."""

    def __init__(self, given: Any) -> None:
        self._given = given
        #: None: a factory makes it with the first use.
        self.known: Any = given if _is_client(given) else None
        no_factory = not callable(given) or inspect.iscoroutinefunction(given) or isinstance(given, type)
        if self.known is None and no_factory:
            raise OptionsError(f"locked() needs a client, or a function that returns one, not {given!r}")

    def client(self) -> Any:
        """The client, made now if this is the first use."""
        if substitutes and self._given in substitutes:
            return substitutes[self._given]
        client = _made.get(self._given) if self.known is None else self.known
        if client is None:
            # Two clients exclude each other even in one thread: a factory makes one for all its decorators.
            with _making:
                client = _made.get(self._given)
                if client is None:
                    client = self._given()
                    if not _is_client(client):
                        raise OptionsError(f"{self._given!r} must return a client, not {client!r}")
                    _made[self._given] = client
        return client


def _is_client(client: object) -> bool:
    return not isinstance(client, type) and callable(getattr(client, "lock", None))


@dataclass(frozen=True)
class _Plan:
    """The checked arguments of one decorator."""

    source: _Source
    name: Any
    blocking: bool
    timeout: float
    on_busy: Any
    options: dict[str, Any]

    def check_options(self) -> None:
        """Refuse impossible options at decoration and not at the first call."""
        if self.source.known is not None:
            self.source.known.lock("name", **self.options)
            return
        rest = dict(self.options)
        ttl = rest.pop("ttl")
        client = ClientOptions() if ttl is None else ClientOptions(ttl, max_ttl=ttl)
        LockOptions("name", client.lease(ttl), **rest)

    def check_kind(self, function: Any, client: Any, coroutine: bool) -> None:
        """Refuse a client that a function cannot await, or that would block the event loop."""
        if hasattr(type(client), "__aenter__") == coroutine:
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

    def busy(self, function: Any, name: str, began: float, args: Any, kwargs: Any) -> Any:
        """The call's result when another owner has the lock."""
        if self.on_busy == RAISE:
            raise LockBusyError(name, clock.now() - began if self.blocking else 0.0)
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
        # Celery checks the arguments of a task and does not follow __wrapped__.
        made.__signature__ = inspect.signature(function)
    return made


def _wrapper(plan: _Plan, function: Any, lock_of: Callable[..., RLock]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        lock, began = lock_of(*args, **kwargs), clock.now()
        with _Attempt(lock, plan) as taken:
            if taken:
                result = function(*args, **kwargs)
                if inspect.iscoroutine(result):
                    result.close()
                    raise OptionsError(
                        f"{described(function)} returned a coroutine, which would run without the lock: put "
                        f"locked() directly above its `async def`, with an rlock.asyncio.Client"
                    )
                return result
        return plan.busy(function, lock.name, began, args, kwargs)

    return wrapper


def _coroutine_wrapper(plan: _Plan, function: Any, lock_of: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        lock, began = lock_of(*args, **kwargs), clock.now()
        async with contextlib.AsyncExitStack() as stack:
            if await lock.acquire(plan.blocking, plan.timeout):
                stack.push_async_exit(lock)
                return await function(*args, **kwargs)
        result = plan.busy(function, lock.name, began, args, kwargs)
        return await result if isinstance(result, Awaitable) else result

    return wrapper


class _Attempt:
    """`with` around a lock that may stay busy: the value says whether it was taken."""

    def __init__(self, lock: RLock, plan: _Plan) -> None:
        self._lock = lock
        self._plan = plan
        self._taken = False

    def __enter__(self) -> bool:
        lock = self._lock
        before = lock.hold_count
        try:
            self._taken = lock.acquire(self._plan.blocking, self._plan.timeout)
            return self._taken
        except BaseException:
            # After a Ctrl-C behind the grant `with` calls no __exit__, and the lock would stay held.
            if lock.hold_count > before:
                lock.__exit__(*sys.exc_info())
            raise

    def __exit__(self, *error: Any) -> None:
        if self._taken:
            self._lock.__exit__(*error)
