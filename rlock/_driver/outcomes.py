"""What is told of an acquire and of a release, for those who observe; else nothing is made."""

from __future__ import annotations

from ..errors import OptionsError, QuorumUnreachableError
from ..events import Acquired, NotAcquired, Released, observed, tell
from ..procedures.acquire import Asked, Grant
from ..rules.holds import Hold
from ..rules.options import LockOptions


def acquired(hold: Hold, grant: Grant, asked: Asked, now: float, masters: int) -> None:
    """A hold was added."""
    if observed():
        fair, waited = hold.options.fair, now - asked.began
        tell(Acquired(hold.name, hold.owner, fair, waited, grant.votes, masters, grant.handed, asked.queued))


def not_acquired(options: LockOptions, asked: Asked, now: float, error: BaseException | None = None) -> None:
    """An acquire ended without one."""
    if observed():
        tell(NotAcquired(options.name, options.fair, now - asked.began, _outcome(error), asked.queued))


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "busy"
    if isinstance(error, QuorumUnreachableError):
        return "unreachable"
    return "error" if isinstance(error, OptionsError) else "interrupted"


def released(hold: Hold, began: float, took: float, *, confirmed: bool, handed: bool = False) -> None:
    """A hold that was not lost was given up."""
    if observed() and not hold.reported:
        hold.reported = True
        held = began - hold.acquired_at
        tell(Released(hold.name, hold.owner, held, took, confirmed, handed))
