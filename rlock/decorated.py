"""The types that `rlock.locked` gives to a function, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from .errors import LeaseLostError

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
B = TypeVar("B")
R_co = TypeVar("R_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

Name = str | Callable[..., str]
Skip = Literal["skip"] | None
OnLost = Callable[[LeaseLostError], object] | None
Fallback = Callable[..., B]
AsyncFallback = Callable[..., Coroutine[Any, Any, B]]


class Options(TypedDict, total=False):
    """The time-out, and the options of ``client.lock``."""

    timeout: float
    fair: bool
    ttl: float | None
    renew: bool
    on_lost: OnLost
    max_hold: float | None


class Bound(Protocol[P, R_co]):
    """A decorated method."""

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

    # Through a class this may be a method, a class method or a static method: mypy cannot distinguish them
    # here, so it checks no parameters. Through an instance a static method loses its first parameter.
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Locked[..., R_co]: ...
    @overload
    def __get__(
        self: Locked[Concatenate[S, Q], R_co], instance: S, owner: type[Any] | None = None, /
    ) -> Bound[Q, R_co]: ...


class RaisesWhenBusy(Protocol):
    """The decorator of calls that return their own result or raise."""

    def __call__(self, function: Callable[P, R], /) -> Locked[P, R]:
        """Decorate a function."""


class MayReturnFallback(Protocol[B_co]):
    """The decorator of calls that may return the result of ``on_busy``."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Locked[P, Coroutine[Any, Any, R | B_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Locked[P, R | B_co]: ...


#: The decorator of calls that may be skipped.
MayReturnNone = MayReturnFallback[None]
