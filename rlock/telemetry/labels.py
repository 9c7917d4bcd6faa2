"""Label values: few, whatever the locks are called."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import OptionsError

log = logging.getLogger("rlock")

#: How many different values a label may have, the last one not counted.
LIMIT = 100

#: What all further ones are counted as.
OTHER = "(other)"

LockLabel = Callable[[str], str]


def prefix(name: str) -> str:
    """The part of a lock's name in front of the first ``:``, or all of it: ``orders:42`` is ``orders``."""
    return name.partition(":")[0]


class Limited:
    """The first `LIMIT` different values as they are, then `OTHER`: a time series costs memory for ever."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """A value as it is, or `OTHER`."""
        if value in self._known:
            return value
        if len(self._known) >= LIMIT:
            return OTHER
        self._known.add(value)
        return value


class LockLabels:
    """The value of the label ``lock`` for the name of a lock. Called with the recorder's mutex."""

    def __init__(self, label: LockLabel | None) -> None:
        if label is not None and not callable(label):
            raise OptionsError(
                f"lock_label must be a function of a lock's name that returns a label, or None, not {label!r}"
            )
        self._label = label
        self._limited = Limited()
        self._failed = False

    def __call__(self, name: str) -> str:
        """The label of a lock."""
        if self._label is None:
            return ""
        try:
            return self._limited(str(self._label(name)))
        except Exception:
            # A label that cannot be made must not make an event uncounted, nor fill the log.
            if not self._failed:
                self._failed = True
                log.exception("lock_label failed for lock %r; such locks are counted as %s", name, OTHER)
            return OTHER
