"""What `rlock run` says of itself: lines for people, or JSON objects, on stderr; stdout is COMMAND's."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...errors import RLockError
from ...model import LockStatus
from .. import exits
from ..output import complain, named, print_json, to_json, utf8


class Outcome:
    """The lines of one run. In text only what went wrong is said, unless ``verbose``."""

    def __init__(self, name: str, *, as_json: bool, verbose: bool, quiet: bool) -> None:
        self._name = name
        self._json = as_json
        self._verbose = verbose
        self.quiet = quiet
        if as_json:
            for handler in logging.getLogger().handlers:
                handler.setFormatter(_JsonLines())

    def event(self, event: str, told: Mapping[str, object], text: str = "", *, always: bool = False) -> None:
        """One event: an object with ``told``, or the text. ``always``: also without --verbose."""
        if self._json:
            print_json({"event": event, "name": self._name, **told}, err=True)
        elif text and (always or self._verbose):
            complain(text)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """With --json errors are objects, too."""
        try:
            yield
        except RLockError as error:
            if not self._json:
                raise
            self.event("error", {"message": str(error)})
            raise SystemExit(exits.of(error)) from None

    def detail(self, text: str) -> None:
        """A line for people only."""
        if not self._json and self._verbose:
            complain(text)

    def busy(self, waited: float, found: LockStatus | Exception, name: str = "") -> None:
        """Somebody else had the lock for all the time. ``name``: of one of several."""
        holder, since = (found.holder, found.since) if isinstance(found, LockStatus) else (None, None)
        name = name or self._name
        told = {"name": name, "outcome": "busy", "waited": waited, "holder": holder, "since": since}
        self.event("not_acquired", told, f"not acquired: {_holder(name, found)}", always=not self.quiet)
        self.detail(f"gave up after {waited:.6f} seconds")


class _JsonLines(logging.Formatter):
    """A log record as one object."""

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        return to_json(
            {"event": "log", "level": level, "message": record.getMessage()}, ascii_only=not utf8(sys.stderr)
        )


def _holder(name: str, found: LockStatus | Exception) -> str:
    if isinstance(found, Exception):
        return f"{name!r} is held ({found})"
    if found.holder is None:
        return f"{name!r} was held until a moment ago"
    for_s = f" for {time.time() - found.since:.0f} s" if found.since is not None else ""
    return f"{name!r} is held by {named(found.holder)}{for_s}"
