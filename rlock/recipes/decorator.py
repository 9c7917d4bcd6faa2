"""locked: a function that runs while it holds a lock."""

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Unpack, overload

from .. import clock
from ..errors import LockBusyError, OptionsError
from ..events import log
from ..rules.options import ClientOptions, LockOptions
from .decorated import Decorator, Name, Options, Skip, described, name_from

#: The results of generator functions, also under `contextlib.contextmanager` and `asynccontextmanager`.
_UNSTARTED = (Generator, AsyncGenerator, contextlib._GeneratorContextManagerBase)
#: The client that each factory returned, for all decorators that name the factory.
_made: dict[Callable[[], Any], Any] = {}
#: The clients that tests put in the place of a client or of its factory (`rlock.testing.use`).
substitutes: dict[Any, Any] = {}


@overload
def locked(
    client: Any, name: Name, *, blocking: Literal[True] = ..., on_busy: None = ..., **options: Unpack[Options]
) -> Decorator[NoReturn]: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: Literal["raise"], **options: Unpack[Options]
) -> Decorator[NoReturn]: ...
@overload
def locked(
    client: Any, name: Name, *, blocking: bool = ..., on_busy: Skip = ..., **options: Unpack[Options]
) -> Decorator[None]: ...
def locked(
    client: Any,
    name: Name,
    *,
    blocking: bool = True,
    timeout: float = -1,
    on_busy: Literal["skip", "raise"] | None = None,
    **options: Any,
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
        the first use in the process, and all decorators that name it share its client.
    :param name: the lock's name, as a template for ``str.format`` over the parameters, defaults included:
        ``"report:{user_id}"``, ``"{order.id}"``, ``"{self.shard}"``, ``"{args[0]}"``. Or a function that
        returns the name, called with the arguments.
    :param blocking: False: one round to the masters decides. When the lock is busy the call is skipped: it
        returns None, and the log has a line at INFO.
    :param timeout: seconds to wait, then the call raises `LockBusyError`; -1: as long as it takes.
    :param on_busy: "skip" or "raise", to do the other one of the two when the lock is busy.
    :param options: ``fair``, ``ttl``, ``renew``, ``on_lost``, ``max_hold``, ``hold_at_least``: as for
        ``client.lock``. ``shared=True``: the reader of ``client.read_write_lock``, which is always fair.
    :raises OptionsError: at decoration, or at the call if the fault is known only then: it says what to do.
    """
    try:
        # It raises the errors of `acquire`, now and not at the first call.
        threading.RLock().acquire(blocking, timeout)
    except (OverflowError, TypeError, ValueError) as error:
        raise OptionsError(
            f"blocking={blocking!r} and timeout={timeout!r}: {error}; give seconds, or -1 for as long as it "
            f"takes, and no timeout with blocking=False"
        ) from None
    if on_busy is None:
        on_busy = "raise" if blocking else "skip"
    elif on_busy not in ("skip", "raise"):
        raise OptionsError(f"on_busy must be 'skip' or 'raise', not {on_busy!r}")
    elif blocking and timeout == -1:
        raise OptionsError(
            "on_busy is never used by a lock that waits as long as it takes: add blocking=False or a timeout"
        )
    _check_lock_options(client, **options)
    return _Decorator(client, name, blocking, timeout, on_busy, options)


def _check_lock_options(client: Any, *, ttl: float | None = None, **options: Any) -> None:
    """Refuse a wrong client or wrong options at decoration, and not at the first call."""
    if options.get("shared") and ("hold_at_least" in options or not options.get("fair", True)):
        raise OptionsError("a reader is fair, and has no least time: leave fair and hold_at_least out")
    if _is_client(client):
        _lock(client, "name", {"ttl": ttl, **options})
        return
    if not callable(client) or inspect.iscoroutinefunction(client) or isinstance(client, type):
        raise OptionsError(f"locked() needs a client, or a function that returns one, not {client!r}")
    # The factory has not made its client yet, whose max_ttl may allow any ttl.
    client_options = ClientOptions() if ttl is None else ClientOptions(ttl, max_ttl=ttl)
    LockOptions("name", client_options.lease(ttl), **options)


def _is_client(client: object) -> bool:
    return not isinstance(client, type) and callable(getattr(client, "lock", None))


def _lock(client: Any, name: str, options: Mapping[str, Any]) -> Any:
    given = {key: value for key, value in options.items() if key != "shared"}
    if options.get("shared"):
        return client.read_write_lock(name, **given).reader
    return client.lock(name, **given)


def _client(source: Any) -> Any:
    """The client of a decorator, whose ``source`` is a client or the factory of one."""
    client = substitutes.get(source, source)
    if _is_client(client):
        return client
    if source not in _made:
        client = source()
        if not _is_client(client):
            raise OptionsError(f"{source!r} must return a client, not {client!r}")
        # The client of the faster thread stays: by a second one a nested call would wait for its own thread.
        _made.setdefault(source, client)
    return _made[source]


@dataclass(frozen=True)
class _Decorator:
    source: Any
    name: Name
    blocking: bool
    timeout: float
    on_busy: str
    options: dict[str, Any]

    def __call__(self, function: Any) -> Any:
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self(function.__func__))
        if isinstance(function, type) or not callable(function):
            raise OptionsError(f"locked() decorates functions and methods, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise OptionsError(
                f"{described(function)} is a generator: the lock would be released before its first item is "
                f"made; use `with client.lock(...)` inside it, or decorate the function that uses it up"
            )
        coroutine = inspect.iscoroutinefunction(function)
        if _is_client(self.source):
            _check_kind(function, self.source)
        name_of = name_from(self.name, function)

        def lock(*args: Any, **kwargs: Any) -> Any:
            client = _client(self.source)
            _check_kind(function, client)
            return _lock(client, name_of(args, kwargs), self.options)

        made = self._coroutine_wrapper(function, lock) if coroutine else self._wrapper(function, lock)
        made.lock = lock
        with contextlib.suppress(TypeError, ValueError):
            # Celery checks the arguments of a task and does not follow __wrapped__.
            made.__signature__ = inspect.signature(function)
        return made

    def _wrapper(self, function: Any, lock_of: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            lock, began = lock_of(*args, **kwargs), clock.now()
            before = lock.hold_count
            try:
                if lock.acquire(self.blocking, self.timeout):
                    result = function(*args, **kwargs)
                    _check_result(function, result)
                    lock.release()
                    return result
            except BaseException:
                # Also for a Ctrl-C between the grant and the body: otherwise the lock would stay held.
                if lock.hold_count > before:
                    lock.__exit__(*sys.exc_info())
                raise
            return self._busy(function, lock.name, began)

        return wrapper

    def _coroutine_wrapper(self, function: Any, lock_of: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            lock, began = lock_of(*args, **kwargs), clock.now()
            async with contextlib.AsyncExitStack() as stack:
                if await lock.acquire(self.blocking, self.timeout):
                    stack.push_async_exit(lock)
                    result = await function(*args, **kwargs)
                    _check_result(function, result)
                    return result
            return self._busy(function, lock.name, began)

        return wrapper

    def _busy(self, function: Any, name: str, began: float) -> None:
        if self.on_busy == "raise":
            raise LockBusyError(name, clock.now() - began if self.blocking else 0.0)
        log.info("lock %r is held by another owner: %s was skipped", name, described(function))


def _check_result(function: Any, result: Any) -> None:
    """Refuse a result whose body has not begun: it would run without the lock."""
    if inspect.iscoroutine(result):
        result.close()
        raise OptionsError(
            f"{described(function)} returned a coroutine, which would run without the lock: "
            f"put locked() directly above its `async def`, with an rlock.asyncio.Client"
        )
    if isinstance(result, _UNSTARTED):
        raise OptionsError(
            f"{described(function)} returned a {type(result).__name__.strip('_')}, whose body would run "
            f"without the lock: use `with client.lock(...)` inside it, or decorate the function that uses it"
        )


def _check_kind(function: Any, client: Any) -> None:
    """Refuse a client that a function cannot await, and one that would block an event loop."""
    coroutine = inspect.iscoroutinefunction(function)
    if hasattr(type(client), "__aenter__") != coroutine:
        kind, wanted = ("coroutine function", "asyncio.Client") if coroutine else ("function", "Client")
        raise OptionsError(f"{described(function)} is a {kind}: give it an rlock.{wanted}, not {client!r}")
