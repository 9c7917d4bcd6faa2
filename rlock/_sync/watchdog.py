"""Watchdog: the one daemon thread that renews all locks of a client, and tells of losses.

It exists while something is held. A loss does not depend on it: that is computed from the clock at the
time of the question (rules/lease.py); the watchdog only pushes the news.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence

from ..clock import Clock
from ..errors import LeaseLostError, RLockError
from ..model import LeaseState
from ..procedures.renew import Renewal, Round
from ..rules.holds import Due, Hold, Holds
from ..rules.lease import LeaseEvent
from ..rules.timing import LINGER_S

log = logging.getLogger("rlock")

#: Renewals that are due within this time go together.
SLACK_S = 0.05

#: How long the last answers to a renewal are waited for, before masters are healed.
STRAGGLER_S = 0.05

REASONS = {
    LeaseEvent.DISOWNED: "a quorum of masters answered that it holds the lock no more "
    "(an operator evicted it, or another owner has it after an expiry)",
}


class Watchdog:
    """Renews what is in ``holds``. ``mutex`` guards them; ``renew`` and ``heal`` perform a round."""

    def __init__(
        self,
        holds: Holds,
        mutex: threading.Lock,
        clock: Clock,
        renew: Callable[[Sequence[Hold]], Round],
        heal: Callable[[Round, float], list[Renewal]],
    ) -> None:
        self._holds = holds
        self._changed = threading.Condition(mutex)
        self._clock = clock
        self._renew = renew
        self._heal = heal
        self._thread: threading.Thread | None = None
        self._needed_until = -math.inf
        self._wake_at = math.inf
        self._closed = False

    def ensure(self) -> None:
        """Have the thread running; before the first write of an acquire.

        A watchdog that cannot be started after the lock was granted would leave it to run out in the
        middle of the work. Raises RuntimeError when no thread can be started. Called with the mutex.
        """
        self._needed_until = self._clock() + LINGER_S
        if (self._thread is None or not self._thread.is_alive()) and not self._closed:
            thread = threading.Thread(target=self._run, name="rlock-watchdog", daemon=True)
            thread.start()
            self._thread = thread

    def watch(self, hold: Hold) -> None:
        """Take note of a new hold. Called with the mutex."""
        self.ensure()
        if hold.renew_at < self._wake_at - SLACK_S:
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._wait()
            if due is None:
                return
            try:
                self._look_after(due)
            except RLockError as error:
                log.debug("no renewal: %s", error)  # the client is being closed
            except BaseException:
                # Whatever goes wrong in one round, the other locks must be renewed in the next.
                log.exception("a renewal round failed; it is tried again")
                with self._changed:
                    for hold in due:
                        if hold in self._holds:
                            hold.schedule(Due.RETRY, self._clock())
                            self._holds.watch(hold)

    def _wait(self) -> list[Hold] | None:
        """The holds that are due; None: nobody needs the thread any more."""
        while not self._closed:
            now = self._clock()
            due = self._holds.take_due(now, SLACK_S)
            if due:
                return due
            if not self._holds.watched and now >= self._needed_until:
                break
            next_due = self._holds.next_due()
            # A short sleep at the most: the last release then needs to wake nobody to end the thread.
            self._wake_at = min(now + LINGER_S, math.inf if next_due is None else next_due)
            self._changed.wait(self._wake_at - now)
        self._thread = None
        return None

    def _look_after(self, due: Sequence[Hold]) -> None:
        now = self._clock()
        renewing: list[Hold] = []
        lost: list[Hold] = []
        with self._changed:
            for hold in due:
                if hold not in self._holds:
                    continue
                if hold.lease.look(now) is LeaseState.LOST:
                    lost.append(hold)
                    continue
                why = hold.renewable(now)
                if why is None:
                    renewing.append(hold)
                    continue
                if hold.due is not Due.END and hold.options.renew:
                    log.error("lock %r is renewed no more: %s; it ends with its lease", hold.name, why)
                hold.stopped = why
                hold.schedule(Due.END, now)
                self._holds.watch(hold)
        if renewing:
            round_ = self._renew(renewing)
            # Before anybody waits for the last masters: validity must not run out over them.
            lost += self._apply_all(round_.decided)
        for hold in lost:
            self.report(hold)
        if renewing:
            with self._changed:
                # One master that is slow must not keep a short lease waiting for its renewal; nor one that
                # is taken while we wait, for nobody can wake us here.
                until = min(self._holds.next_due() or math.inf, self._clock() + STRAGGLER_S)
            for hold in self._apply_all(self._heal(round_, until)):
                self.report(hold)

    def _apply_all(self, renewals: Sequence[Renewal]) -> list[Hold]:
        """What rounds did; the holds that are lost by it."""
        with self._changed:
            # Released while it was renewed: "not yours" is then what it should be, and no loss.
            return [
                renewal.hold for renewal in renewals if renewal.hold in self._holds and self._apply(renewal)
            ]

    def _apply(self, renewal: Renewal) -> bool:
        """What a round did to a lease; whether it is lost."""
        hold, lease, event = renewal.hold, renewal.hold.lease, renewal.event
        before = lease.state
        if event is LeaseEvent.RENEWED:
            state = lease.renewed(renewal.sent_at, self._clock())
        else:
            lease.look(self._clock())
            state = lease.on(event, REASONS.get(event, ""))
        if state is LeaseState.HELD:
            hold.schedule(Due.RENEW, renewal.sent_at)
        elif state is LeaseState.SUSPECT:
            if before is LeaseState.HELD:
                log.warning(
                    "lock %r: no quorum renewed it; %.1f s of validity left, trying on",
                    hold.name,
                    lease.remaining(self._clock()),
                )
            hold.schedule(Due.RETRY, renewal.sent_at)
        if state in (LeaseState.HELD, LeaseState.SUSPECT):
            if before is LeaseState.SUSPECT and state is LeaseState.HELD:
                log.warning("lock %r: renewed again by a quorum", hold.name)
            self._holds.watch(hold)
        return state is LeaseState.LOST

    def report(self, hold: Hold, reason: str = "") -> None:
        """Tell of a loss: once, by log, event and callback."""
        with self._changed:
            if hold.reported:
                return
            hold.reported = True
            self._holds.unwatch(hold)
            if not hold.owner_key.alive:
                self._holds.remove(hold)  # nobody is left to release it
            reason = reason or hold.reason
            signal, on_lost = hold.signal, hold.options.on_lost
        log.error("lock %r was lost: %s", hold.name, reason)
        if signal is not None:
            signal.set()
        if on_lost is not None:
            error = LeaseLostError(hold.name, reason)
            try:
                # In a thread of its own: a callback that blocks must not stop the renewal of other locks.
                threading.Thread(
                    target=_call, args=(on_lost, error), name="rlock-on-lost", daemon=True
                ).start()
            except RuntimeError:  # no thread to be had: late is better than never
                _call(on_lost, error)


def _call(on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
    try:
        on_lost(error)
    except Exception:
        log.exception("on_lost of lock %r raised", error.name)
