"""The events of one acquire and of the hold that it made, each emitted once and in order.

Ctrl-C can come between any two lines. So a function marks an event as emitted before it emits it. The undo of
the acquire or release emits an event that was not marked.
"""

from __future__ import annotations

from ..clock import Clock
from ..errors import OptionsError, QuorumUnreachableError
from ..events import Acquired, Event, NotAcquired, Released, emit, observed
from ..procedures.contender import Grant, Report
from ..rules.holds import Hold
from ..rules.options import LockOptions


def acquired(hold: Hold, grant: Grant, report: Report, clock: Clock, masters: int) -> None:
    """Emit the acquire of a hold, and then the events that waited for it."""
    waited = clock() - report.began_at
    event = Acquired(
        hold.name, hold.owner, hold.options.fair, waited, grant.votes, masters, grant.handed, report.queued
    )
    try:
        report.ended = True
        emit(event)
    finally:
        _emit_pending(hold)


def not_acquired(
    options: LockOptions, report: Report, clock: Clock, error: BaseException | None = None
) -> None:
    if observed() and not report.ended:
        waited = clock() - report.began_at
        event = NotAcquired(options.name, options.fair, waited, _outcome(error), report.queued)
        report.ended = True
        emit(event)


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "busy"
    if isinstance(error, QuorumUnreachableError):
        return "unreachable"
    return "error" if isinstance(error, OptionsError) else "interrupted"


def released(hold: Hold, began: float, now: float, *, confirmed: bool, handed: bool = False) -> None:
    """Emit the release of a hold, which took from ``began`` to ``now``, unless its end was reported."""
    _emit_pending(hold)
    if hold.report.end_reported:
        return
    if observed():
        held = began - hold.acquired_at
        event = Released(hold.name, hold.owner, held, now - began, confirmed, handed)
        hold.report.end_reported = True
        emit(event)
    hold.report.end_reported = True


def given_up(hold: Hold, now: float) -> None:
    """Emit the release of a hold that did not wait for the masters."""
    released(hold, now, now, confirmed=False)


def emit_in_order(hold: Hold, event: Event) -> None:
    """Emit an event of a hold, but not before its acquire: an observer may still be handling that."""
    pending = hold.report.pending_events
    if pending is None:
        emit(event)
        return
    pending.add(event)
    if hold.report.pending_events is None:  # the acquire was emitted meanwhile, without this event
        pending.emit()


def _emit_pending(hold: Hold) -> None:
    pending, hold.report.pending_events = hold.report.pending_events, None
    if pending is not None:
        pending.emit()
