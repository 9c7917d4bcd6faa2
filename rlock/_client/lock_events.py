"""What is told of an acquire and of what became of its hold, each once.

Ctrl-C can come between any two lines here, too. What is noted down beforehand makes the rest of the way
tell no second end; what an interrupt cuts off is told by the undo.
"""

from __future__ import annotations

from ..clock import Clock
from ..errors import OptionsError, QuorumUnreachableError
from ..events import Acquired, Event, NotAcquired, Released, observed, tell
from ..procedures.contender import Grant, Report
from ..rules.holds import Hold
from ..rules.options import LockOptions


def acquired(hold: Hold, grant: Grant, report: Report, clock: Clock, masters: int) -> None:
    """A hold was added, and was told to keep its news until now."""
    waited = clock() - report.began_at
    event = Acquired(
        hold.name, hold.owner, hold.options.fair, waited, grant.votes, masters, grant.handed, report.queued
    )
    try:
        report.ended = True
        tell(event)
    finally:
        _tell_early(hold)


def _tell_early(hold: Hold) -> None:
    early, hold.early = hold.early, None
    if early is not None:
        early.tell()


def not_acquired(
    options: LockOptions, report: Report, clock: Clock, error: BaseException | None = None
) -> None:
    """An acquire ended without a hold."""
    if observed() and not report.ended:
        waited = clock() - report.began_at
        event = NotAcquired(options.name, options.fair, waited, _outcome(error), report.queued)
        report.ended = True
        tell(event)


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "busy"
    if isinstance(error, QuorumUnreachableError):
        return "unreachable"
    return "error" if isinstance(error, OptionsError) else "interrupted"


def released(hold: Hold, began: float, now: float, *, confirmed: bool, handed: bool = False) -> None:
    """A hold that was not lost was given up, from ``began`` to ``now``."""
    _tell_early(hold)
    if hold.reported:
        return
    if observed():
        held = began - hold.acquired_at
        event = Released(hold.name, hold.owner, held, now - began, confirmed, handed)
        hold.reported = True
        tell(event)
    hold.reported = True


def given_up(hold: Hold, now: float) -> None:
    """It was given up without waiting for the masters, unless its end was told."""
    released(hold, now, now, confirmed=False)


def taken_back(hold: Hold, report: Report) -> None:
    """Its acquire was interrupted: if that was not told, nor will be what becomes of it."""
    if not report.ended:
        hold.early, hold.reported = None, True


def emit_in_order(hold: Hold, event: Event) -> None:
    """Tell an event of a hold, but not before its acquire was told: an observer may still be at that."""
    early = hold.early
    if early is None:
        tell(event)
        return
    early.note(event)
    if hold.early is None:  # it was told meanwhile
        early.tell()
