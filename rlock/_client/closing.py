"""Closing: the end of a client. It leaves nothing on a master, and no thread or task waiting."""

from typing import Any

from ..errors import RLockError
from ..events import CLOSED, log
from ..model import LeaseState
from ..procedures.port import Request, WaitGenerator
from ..procedures.release import Released, ending, outcome
from ..procedures.withdraw import undo
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from ..rules.timing import FIRST_CONTACT_S
from .calls import Calls
from .hold_table import HoldTable
from .subscriptions import Subscriptions
from .watchdog import AT_CLOSE, DISOWNED, Watchdog


def close(
    holds: HoldTable, masters: Calls[Any], notifications: Subscriptions[Any], watchdog: Watchdog
) -> WaitGenerator[None]:
    """Release the holds, undo acquires, end connections and the watchdog; once, or again after Ctrl-C."""
    here = holds.runtime.caller()
    try:
        yield from _close(holds, masters, notifications, watchdog, here)
    finally:
        if holds.closer == here:
            holds.closer = None  # last: otherwise another thread's call would close everything again


def _close(
    holds: HoldTable, masters: Calls[Any], notifications: Subscriptions[Any], watchdog: Watchdog, here: object
) -> WaitGenerator[None]:
    now = holds.clock()  # before the reading: no lease counts as over whose confirmation is not read yet
    for hold in holds:
        holds.hear(hold)
    with holds.mutex:
        if holds.closed and (watchdog.stopped or holds.closer not in (None, here)):
            return
        again, holds.closed, holds.closer = holds.closed, True, here
        every = [*holds]  # first: a signal handler adds its hold to the releases, and then takes it from here
        for hold in every:
            # It stays in the table as lost: otherwise its owner's release would find no hold.
            if hold.lease.update(now) is not LeaseState.LOST:
                holds.schedule.remove(hold)
                hold.lease.on(LeaseEvent.DISOWNED, AT_CLOSE)
        held = [hold for hold in every if hold.lease.reason == AT_CLOSE]
        # Also lost ones, because a master may have their places, and those that their owners release now.
        releasing = [*holds.under_way.releasing.values(), *every]
        # Owners that masters may not know although nothing was lost: undone, released before, or in a writer.
        unknown = {hold.owner for hold in releasing if again or hold.writer is not None}
        unknown.update(*(owners for _, owners in list(holds.under_way.acquiring.values())))
    connections, ends = masters._connections, True
    try:
        for hold in held:
            if hold.report.signal is not None:
                hold.report.signal.set()
        if not connections.closed:
            _undo(holds, masters)
            if releasing:
                try:
                    ballots = yield from masters.call_many([_release(masters, hold) for hold in releasing])
                    for hold, ballot in zip(releasing, ballots, strict=True):
                        judged = hold.lease.reason == AT_CLOSE and hold.owner not in unknown
                        if judged and outcome(masters.context, ballot) is Released.NOT_OURS:
                            hold.lease.reason = DISOWNED
                except RLockError as error:
                    log.warning("the masters were not told: %s", error)
            if any(server.missed for server in connections.servers):
                yield from masters.connect(FIRST_CONTACT_S, to_all=True)
            yield from masters.drain()
    except GeneratorExit:
        raise
    except BaseException:
        ends = False  # a second Ctrl-C leaves the rest to another call, or to the end of the process
        # Ctrl-C in the middle of a write has ended its connection.
        yield from masters.connect(FIRST_CONTACT_S, to_all=True)
        _undo(holds, masters)
        for hold in releasing:
            masters.send(_release(masters, hold).command)
        # A master forgets commands that it has not read when the connection closes.
        yield from masters.drain(to_the_end=True)
        ends = True
        raise
    finally:
        if ends:
            notifications.close()
            masters.close()
            for hold in holds:
                closed = hold.lease.reason == AT_CLOSE
                watchdog.report_loss(hold, *((AT_CLOSE, CLOSED) if closed else ()))
            watchdog.stop()


def _undo(holds: HoldTable, masters: Calls[Any]) -> None:
    """Undo acquires of other threads or tasks, behind their rounds on the same connections."""
    masters.refuse()
    for options, owners in list(holds.under_way.acquiring.values()):
        for owner in list(owners):
            undo(masters, options, owner)


def _release(masters: Calls[Any], hold: Hold) -> Request:
    context, lease = masters.context, hold.options.lease
    rest = hold.rest(context.clock())
    return Request(ending(context, hold, rest), lease.request_timeout, resend_for=0.0 if rest else lease.ttl)
