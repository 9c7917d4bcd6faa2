"""Closing: the end of a client. Nothing of it may stay on a master, and nobody may wait for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..errors import RLockError
from ..events import CLOSED, Lost
from ..model import LeaseState
from ..procedures.contender import undo
from ..procedures.port import Request, WaitGenerator
from ..procedures.release import take_back_from
from ..rules import commands
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from . import lock_events
from .watchdog import AT_CLOSE

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("rlock")


def close(engine: Engine) -> WaitGenerator[None]:
    """Release what is held, take back what is asked for, end connections and the watchdog. Twice is once."""
    with engine.mutex:
        if engine.closed:
            return
        engine.closed = True
        now = engine.clock()
        lost = [hold for hold in engine.holds if hold.lease.look(now) is LeaseState.LOST]
        holds = [hold for hold in engine.holds if hold not in lost]
        for hold in holds:
            # It stays in the table, lost: its owner is told so when it releases.
            engine.holds.schedule.remove(hold)
            hold.lease.on(LeaseEvent.DISOWNED, AT_CLOSE)
            hold.report.end_reported = True
        # Also those of which another owner is just about to inform the masters: it may be too late.
        releasing = [*holds, *engine.under_way.releasing.values()]
    for hold in holds:
        if hold.report.signal is not None:
            hold.report.signal.set()
    try:
        _take_back(engine)
        if releasing:
            # All are written first, then one wait for all of them: bounded, however many there are.
            try:
                yield from engine.masters.call_many([_release(engine, hold) for hold in releasing])
            except RLockError as error:
                log.warning("the masters were not told: %s", error)
        yield from engine.masters.drain()
    except GeneratorExit:
        raise
    except BaseException:
        # A master forgets commands that it has not read when the connection closes.
        yield from engine.masters.drain(to_the_end=True)
        raise
    finally:
        # Also when it is interrupted: nothing of this client may go on.
        engine.watchdog.stop()
        engine.notifications.close()
        engine.masters.close()
        for hold in holds:
            event = Lost(hold.name, hold.owner, now - hold.acquired_at, CLOSED, AT_CLOSE)
            lock_events.emit_in_order(hold, event)
        for hold in lost:
            # The watchdog did not come to it, or does not watch it.
            engine.watchdog.report_loss(hold)


def _take_back(engine: Engine) -> None:
    """Undo acquires and hand-overs that other threads or tasks have under way.

    Their rounds are written and may be won, so the undo goes out on the same connections.
    """
    engine.masters.refuse()
    # Before the acquires: a next owner goes from here to the list of its acquire, never back.
    for next_owner, contender in list(engine.under_way.handing_over.items()):
        take_back_from(engine, contender, next_owner, None)
    for options, owners in list(engine.under_way.acquiring.values()):
        for owner in list(owners):
            undo(engine, options, owner)


def _release(engine: Engine, hold: Hold) -> Request:
    command = commands.free(engine.context.wire, hold.name, hold.owner, hold.waiter)
    return Request(command, hold.options.lease.request_timeout)
