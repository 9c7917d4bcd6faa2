"""What `rlock run` says of itself: lines for people, or JSON objects, on stderr; stdout is COMMAND's."""

from __future__ import annotations

import logging
import sys
import time

from ...errors import LeaseLostError, QuorumUnreachableError
from ...model import LockStatus
from ..output import complain, print_json, to_json, utf8


class Outcome:
    """The lines of one run. In text only what went wrong is said, unless ``verbose``."""

    def __init__(self, name: str, *, as_json: bool, verbose: bool, quiet: bool) -> None:
        self._name = name
        self._json = as_json
        self._verbose = verbose
        self._quiet = quiet
        if as_json:
            for handler in logging.getLogger().handlers:
                handler.setFormatter(_JsonLines())

    def acquired(self, owner: str, token: int | None, ttl: float, waited: float) -> None:
        """It has the lock."""
        told = {"name": self._name, "owner": owner, "fencing_token": token, "ttl": ttl}
        self._say("acquired", {**told, "waited": waited}, f"getting lock took {waited:.6f} seconds")

    def executing(self, command: str) -> None:
        """It starts the command."""
        if not self._json:
            self._say("executing", {}, f"executing {command}")

    def busy(self, found: LockStatus | Exception, waited: float) -> None:
        """Somebody else had the lock for all the time."""
        status = found if isinstance(found, LockStatus) else None
        told = {"name": self._name, "outcome": "busy", "waited": waited}
        told["holder"] = status.holder if status else None
        told["since"] = status.since if status else None
        text = f"not acquired: {_holder(self._name, found)}"
        self._say("not_acquired", told, text, always=not self._quiet)
        if self._verbose and not self._json:
            self._say("", {}, f"gave up after {waited:.6f} seconds")

    def unreachable(self, error: QuorumUnreachableError, waited: float) -> None:
        """Fewer than a quorum of masters answered."""
        told = {"name": self._name, "outcome": "unreachable", "waited": waited}
        self._say("not_acquired", {**told, "quorum": error.quorum, "faults": error.faults}, str(error), True)

    def again(self, error: QuorumUnreachableError, delay: float, left: int) -> None:
        """It will try again."""
        told = {"name": self._name, "retries_left": left, "delay": delay, "faults": error.faults}
        self._say("retrying", told, f"{error}; trying again in {delay:g} s ({left} left)")

    def lost(self, error: LeaseLostError) -> None:
        """The lock was lost; the log has said so in words."""
        if self._json:
            self._say("lost", {"name": self._name, "reason": error.reason}, "")

    def found_lost(self, error: LeaseLostError) -> None:
        """The release found out."""
        self._say("lost", {"name": self._name, "reason": error.reason}, str(error), True)

    def ended(self, status: int, held: float) -> None:
        """The command has ended, the lock was given back."""
        told = {"name": self._name, "exit_status": status, "held": held}
        self._say("ended", told, f"ended with status {status}, lock held for {held:.6f} seconds")

    def _say(self, event: str, told: dict[str, object], text: str, always: bool = False) -> None:
        if self._json:
            print_json({"event": event, **told}, err=True)
        elif always or self._verbose:
            complain(text)


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
    return f"{name!r} is held by {found.holder}{for_s}"
