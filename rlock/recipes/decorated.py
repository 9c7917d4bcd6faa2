"""The types of `rlock.locked`, for type checkers, and the names of its locks: templates over arguments."""

import inspect
import re
import string
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from ..errors import LeaseLostError, OptionsError
from ..rules.options import check_name

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

Name = str | Callable[..., str]
Skip = Literal["skip"] | None

#: The end of Python's default text of an object. The address differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


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


def described(function: object) -> str:
    """The name of a function, for people."""
    return f"{getattr(function, '__qualname__', None) or repr(function)}()"


def name_from(template: object, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A function of ``(args, kwargs)`` that returns the lock's name; ``client.lock`` checks that name.

    :raises OptionsError: the template fits no call of ``function``. The returned function raises it when
        the template does not fit this call.
    """
    if callable(template):
        return lambda args, kwargs: template(*args, **kwargs)
    if not isinstance(template, str):
        raise OptionsError(f"locked() needs a name, a template or a function of a name, not {template!r}")
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise OptionsError(f"{template!r} is no template: {error}; write {{{{ and }}}} for braces") from None
    if not fields:
        name = check_name(template.format())
        return lambda args, kwargs: name
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise OptionsError(
            f"the name {template!r} cannot be filled: {described(function)} does not tell its parameters "
            f"({error}); give a callable that returns the name"
        ) from None
    for field in fields:
        if re.split(r"[.\[]", field)[0] not in signature.parameters:
            raise OptionsError(
                f"{{{field}}} in the name {template!r} is no parameter of {described(function)}, which has "
                f"{', '.join(signature.parameters) or 'none'}"
            )

    def fill(args: Any, kwargs: Any) -> str:
        # Outside the `try`: wrong arguments raise the same TypeError as without the decorator.
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            name = template.format_map(bound.arguments)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise OptionsError(
                f"the name {template!r} does not fit this call of {described(function)}: "
                f"{type(error).__name__}: {error}"
            ) from error
        check_name(name)  # first its length: the name may hold megabytes of a user's data
        address = _ADDRESS.search(name)
        if address and "<" in name[: address.start()]:
            raise OptionsError(
                f"a lock's name must be the same in every process, and {name!r} holds an address: name a "
                f"field of the object, such as {{order.id}}"
            )
        return name

    return fill
