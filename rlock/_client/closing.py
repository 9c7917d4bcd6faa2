"""Closing: the end of a client. It leaves nothing on a master, and no thread or task waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RLockError
from ..events import CLOSED, Lost, log
from ..model import LeaseState
from ..procedures.contender import undo
from ..procedures.port import Request, WaitGenerator
from ..procedures.release import take_back_from
from ..rules import commands
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from . import lock_events
from .connections import FIRST_CONTACT_S
from .watchdog import AT_CLOSE

if TYPE_CHECKING:
    from .engine import Engine


def close(engine: Engine) -> WaitGenerator[None]:
    """Release the holds, undo acquires, end connections and the watchdog; once, or again after Ctrl-C."""
    here = engine.runtime.caller()
    with engine.mutex:
        if engine.closed and (engine.watchdog.stopped or engine.closer not in (None, here)):
            return
        again, engine.closed, engine.closer = engine.closed, True, here
        now = engine.clock()
        for hold in engine.holds:
            # It stays in the table as lost: otherwise its owner's release would find no hold.
            if hold.lease.look(now) is not LeaseState.LOST:
                engine.holds.schedule.remove(hold)
                hold.lease.on(LeaseEvent.DISOWNED, AT_CLOSE)
        holds = [hold for hold in engine.holds if hold.lease.reason == AT_CLOSE]
        # Also holds whose owners are releasing now: their commands may come too late.
        releasing = [*holds, *engine.under_way.releasing.values()]
    connections, ends = engine.masters._connections, True
    try:
        for hold in holds:
            if hold.report.signal is not None:
                hold.report.signal.set()
        if not connections.closed:
            _take_back(engine)
            if again:
                yield from engine.masters.connect(FIRST_CONTACT_S, to_all=True)
            if releasing:
                # Pipelined, so the wait is bounded for any number of holds.
                try:
                    yield from engine.masters.call_many([_release(engine, hold) for hold in releasing])
                except RLockError as error:
                    log.warning("the masters were not told: %s", error)
            yield from engine.masters.drain()
    except GeneratorExit:
        raise
    except BaseException:
        ends = False  # a second Ctrl-C leaves the rest to another call, or to the end of the process
        # Ctrl-C in the middle of a write has ended its connection.
        yield from engine.masters.connect(FIRST_CONTACT_S, to_all=True)
        _take_back(engine)
        for hold in releasing:
            engine.masters.send(_release(engine, hold).command)
        # A master forgets commands that it has not read when the connection closes.
        yield from engine.masters.drain(to_the_end=True)
        ends = True
        raise
    finally:
        engine.closer = None
        if ends:
            _end(engine, now)


def _end(engine: Engine, now: float) -> None:
    """End the connections and the watchdog, and report what had not been released."""
    engine.notifications.close()
    engine.masters.close()
    for hold in engine.holds:
        if hold.lease.reason != AT_CLOSE:
            engine.watchdog.report_loss(hold)
        elif not hold.report.end_reported:
            hold.report.end_reported = True
            event = Lost(hold.name, hold.owner, now - hold.acquired_at, CLOSED, AT_CLOSE)
            lock_events.emit_in_order(hold, event)
    engine.watchdog.stop()


def _take_back(engine: Engine) -> None:
    """Undo acquires and hand-overs of other threads or tasks, behind their rounds on the same connections."""
    engine.masters.refuse()
    # Before the acquires: otherwise a token that moves to its acquire meanwhile would be missed.
    for next_owner, contender in list(engine.under_way.handing_over.items()):
        take_back_from(engine, contender, next_owner, None)
    for options, owners in list(engine.under_way.acquiring.values()):
        for owner in list(owners):
            undo(engine, options, owner)


def _release(engine: Engine, hold: Hold) -> Request:
    command = commands.free(engine.context.wire, hold.name, hold.owner, hold.waiter)
    return Request(command, hold.options.lease.request_timeout)
