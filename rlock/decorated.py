"""What `rlock.locked` makes of a function, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, overload

from .errors import LeaseLostError

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

Source = Any  # rlock.Client, rlock.asyncio.Client, or what returns one of them
Name = str | Callable[..., str]
OnLost = Callable[[LeaseLostError], object] | None


class LockWords(TypedDict, total=False):
    """The options of ``client.lock``."""

    fair: bool
    ttl: float | None
    renew: bool
    on_lost: OnLost
    max_hold: float | None


class OfClass(Protocol[R_co]):
    """A decorated method, looked up in a class."""

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        """Call it under its lock."""

    @property
    def __wrapped__(self) -> Callable[..., Any]: ...

    @property
    def lock(self) -> Callable[..., Any]:
        """The lock of a call with these arguments."""


class Bound(Protocol[P, R_co]):
    """A decorated method of an instance."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it under its lock."""

    @property
    def lock(self) -> Callable[..., Any]:
        """The lock of a call with these arguments, the instance included."""


class Locked(Protocol[P, R_co]):
    """A decorated function."""

    __name__: str
    __qualname__: str

    @property
    def __wrapped__(self) -> Callable[..., Any]: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it under its lock."""

    @property
    def lock(self) -> Callable[P, Any]:
        """The lock of a call with these arguments."""

    # Of a class it may be a method, a class method or a static one: mypy cannot tell these apart here, so
    # their parameters go unchecked. A static method is called through its class: through an instance
    # type checkers take its first parameter away.
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> OfClass[R_co]: ...
    @overload
    def __get__(
        self: Locked[Concatenate[S, Q], R_co], instance: S, owner: type[Any] | None = None, /
    ) -> Bound[Q, R_co]: ...


class Sure(Protocol):
    """The decorator of calls that have their result, or raise."""

    def __call__(self, function: Callable[P, R], /) -> Locked[P, R]:
        """Decorate a function."""


class Skipping(Protocol):
    """The decorator of calls that may be skipped."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Locked[P, Coroutine[Any, Any, R | None]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Locked[P, R | None]: ...


class Answering(Protocol[B_co]):
    """The decorator of calls that something else may answer."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Locked[P, Coroutine[Any, Any, R | B_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Locked[P, R | B_co]: ...
