"""The types of `rlock.locked`, for type checkers."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from ..errors import LeaseLostError

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

Name = str | Callable[..., str]
Skip = Literal["skip"] | None


class Options(TypedDict, total=False):
    """The time-out, and the options of ``client.lock``."""

    timeout: float
    fair: bool
    ttl: float | None
    renew: bool
    on_lost: Callable[[LeaseLostError], object] | None
    max_hold: float | None
    hold_at_least: float
    shared: bool


class Locked(Protocol[P, R_co]):
    """A decorated function or method."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    #: The lock of a call with these arguments; for a method they begin with ``self``.
    lock: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it under its lock."""

    # Through a class this may be a method, a class method or a static method: mypy cannot distinguish them
    # here, so it checks no parameters. Through an instance a static method loses its first parameter.
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> "Locked[..., R_co]": ...
    @overload
    def __get__(
        self: "Locked[Concatenate[S, Q], R_co]", instance: S, owner: type[Any] | None = None, /
    ) -> "Locked[Q, R_co]": ...


class Decorator(Protocol[B_co]):
    """Adds the result of a call with a busy lock; NoReturn if that call raises."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Locked[P, Coroutine[Any, Any, R | B_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Locked[P, R | B_co]: ...
