"""The names of the locks of decorated functions: templates over the arguments of a call."""

import inspect
import re
import string
from collections.abc import Callable
from typing import Any

from ..errors import OptionsError
from ..rules.options import check_name

#: The end of Python's default text of an object. The address differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


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
