"""A lock's name from a template and the arguments of a call."""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import OptionsError
from .options import check_name

#: Part of Python's default text of an object: the address differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def described(function: object) -> str:
    """A function's name for messages."""
    return f"{getattr(function, '__qualname__', None) or repr(function)}()"


def name_from(name: object, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A function of ``(args, kwargs)`` that returns the lock's name; ``client.lock`` checks that name.

    :raises OptionsError: the template fits no call of ``function``. The returned function raises it when
        the template does not fit this call.
    """
    if callable(name):
        return lambda args, kwargs: name(*args, **kwargs)
    if not isinstance(name, str):
        raise OptionsError(f"locked() needs a name, a template or a function of a name, not {name!r}")
    try:
        fields = list(_fields(name))
    except ValueError as error:
        raise OptionsError(f"{name!r} is no template: {error}; write {{{{ and }}}} for braces") from None
    if not fields:
        fixed = check_name(name.format())
        return lambda args, kwargs: fixed
    signature = _signature(name, function)
    for field in fields:
        if field not in signature.parameters:
            raise OptionsError(
                f"{{{field}}} in the name {name!r} is no parameter of {described(function)}, which has "
                f"{', '.join(signature.parameters) or 'none'}"
            )
    formatter = _Formatter()

    def fill(args: Any, kwargs: Any) -> Any:
        # Outside the `try`: wrong arguments raise the same TypeError as without the decorator.
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            return formatter.vformat(name, (), bound.arguments)
        except OptionsError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise OptionsError(
                f"the name {name!r} does not fit this call of {described(function)}: "
                f"{type(error).__name__}: {error}"
            ) from error

    return fill


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise OptionsError(
            f"the name {name!r} cannot be filled: {described(function)} does not tell its parameters "
            f"({error}); give a callable that returns the name"
        ) from None


def _fields(template: str) -> Iterator[str]:
    """The parameters that a template names, also within format specifications."""
    for _, field, spec, _ in string.Formatter().parse(template):
        if field is None:
            continue
        first = re.split(r"[.\[]", field, maxsplit=1)[0]
        if not first or first.isdecimal():
            raise OptionsError(
                f"{{{field}}} in the name {template!r} names no parameter: write {{user_id}}, or {{args[0]}} "
                f"for a function with *args"
            )
        yield first
        yield from _fields(spec or "")


class _Formatter(string.Formatter):
    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return kwargs[str(key)]

    def convert_field(self, value: Any, conversion: Any) -> Any:
        # Otherwise each process would lock a name of its own, and exclude no other process.
        if not isinstance(value, str) and _ADDRESS.search(str(value)):
            raise OptionsError(
                f"a lock's name must be the same in every process, and the text of {value} is not: name a "
                f"field of it, such as {{order.id}}"
            )
        return super().convert_field(value, conversion)
