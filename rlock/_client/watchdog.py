"""Watchdog: the one thread or task that renews all locks of a client, and tells of losses.

It exists while something is held. A loss does not depend on it: that is computed from the clock at the
time of the question (rules/lease.py); the watchdog only pushes the news.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ..clock import Clock
from ..errors import LeaseLostError
from ..events import (
    Event,
    Lost,
    RenewalFailed,
    RenewalRecovered,
    RenewalStopped,
    Renewed,
    observed,
    tell,
)
from ..model import LeaseState
from ..procedures.port import WaitGenerator
from ..procedures.renew import Renewal, Round
from ..rules.holds import Due, Hold, Holds
from ..rules.lease import LeaseEvent
from ..rules.timing import LINGER_S
from .lock_events import emit_in_order

#: Renewals that are due within this time go together.
SLACK_S = 0.05

#: How long the last answers to a renewal are waited for, before masters are healed.
STRAGGLER_S = 0.05

#: The reason of a loss by `close`.
AT_CLOSE = "its client was closed"

REASONS = {
    LeaseEvent.DISOWNED: "a quorum of masters answered that it holds the lock no more "
    "(an operator evicted it, or another owner has it after an expiry)",
}


class Watchdog(ABC):
    """Renews what is in ``holds``. ``mutex`` guards them; ``renewing`` and ``healing`` perform a round."""

    def __init__(
        self,
        holds: Holds,
        mutex: threading.Lock,
        clock: Clock,
        renewing: Callable[[Sequence[Hold]], WaitGenerator[Round]],
        healing: Callable[[Round, float], WaitGenerator[list[Renewal]]],
    ) -> None:
        self._holds = holds
        self._mutex = mutex
        self._clock = clock
        self._renewing = renewing
        self._healing = healing
        self._needed_until = -math.inf
        self._wake_at = math.inf
        self._closed = False

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> None:
        """See to it that somebody runs. Raises RuntimeError when that cannot be. With the mutex."""

    @abstractmethod
    def _stir(self) -> None:
        """Let it look again. With the mutex."""

    @abstractmethod
    def stop(self) -> None:
        """Renew nothing any more."""

    @abstractmethod
    def _connect_options(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        """Call it where it can stop nothing else."""

    # -- for the engine ----------------------------------------------------------------------------

    def ensure(self) -> None:
        """Have it running; before the first write of an acquire.

        A watchdog that cannot be started after the lock was granted would leave it to run out in the
        middle of the work. Raises RuntimeError when it cannot be started. Called with the mutex.
        """
        self._needed_until = self._clock() + LINGER_S
        if not self._closed:
            self._start()

    def watch(self, hold: Hold) -> None:
        """Take note of a new hold. Called with the mutex."""
        self.ensure()
        if hold.renew_at < self._wake_at - SLACK_S:
            self._stir()

    # -- the round ---------------------------------------------------------------------------------

    def _next(self) -> list[Hold] | None:
        """The holds that are due; none: look again at ``_wake_at``; None: never. With the mutex."""
        now = self._clock()
        due = [] if self._closed else self._holds.take_due(now, SLACK_S)
        if due:
            return due
        if self._closed or (not self._holds.watched and now >= self._needed_until):
            return None
        next_due = self._holds.next_due()
        # A short sleep at the most: the last release then needs to wake nobody to end it.
        self._wake_at = min(now + LINGER_S, math.inf if next_due is None else next_due)
        return []

    def _try_again(self, due: Sequence[Hold]) -> None:
        """Whatever went wrong in one round, these locks must be renewed in the next."""
        with self._mutex:
            for hold in due:
                if hold in self._holds:
                    hold.schedule(Due.RETRY, self._clock())
                    self._holds.watch(hold)

    def _looking_after(self, due: Sequence[Hold]) -> WaitGenerator[None]:
        now = self._clock()
        renewing: list[Hold] = []
        lost: list[Hold] = []
        stopped: list[Event] = []
        with self._mutex:
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
                    stopped.append(RenewalStopped(hold.name, hold.owner, *why))
                hold.stopped = why
                hold.schedule(Due.END, now)
                self._holds.watch(hold)
        failed = 0
        try:
            if renewing:
                round_ = yield from self._renewing(renewing)
                # Before anybody waits for the last masters: validity must not run out over them.
                lost += self._apply_all(round_.decided)
                failed = _failed(round_.decided)
                took = self._clock() - now
        finally:
            # Not before the others are renewed: their validity must not run out over those who are told.
            for event in stopped:
                tell(event)
        for hold in lost:
            self.report(hold)
        if renewing:
            with self._mutex:
                # One master that is slow must not keep a short lease waiting for its renewal; nor one that
                # is taken while we wait, for nobody can wake us here.
                until = min(self._holds.next_due() or math.inf, self._clock() + STRAGGLER_S)
            healed = yield from self._healing(round_, until)
            for hold in self._apply_all(healed):
                self.report(hold)
            if observed():
                tell(Renewed(len(renewing), failed + _failed(healed), took))

    def _apply_all(self, renewals: Sequence[Renewal]) -> list[Hold]:
        """What rounds did; the holds that are lost by it."""
        news: list[Event] = []
        with self._mutex:
            # Released while it was renewed: "not yours" is then what it should be, and no loss.
            lost = [
                renewal.hold
                for renewal in renewals
                if renewal.hold in self._holds and self._apply(renewal, news)
            ]
        for event in news:
            tell(event)
        return lost

    def _apply(self, renewal: Renewal, news: list[Event]) -> bool:
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
                news.append(RenewalFailed(hold.name, hold.owner, lease.remaining(self._clock())))
            hold.schedule(Due.RETRY, renewal.sent_at)
        if state in (LeaseState.HELD, LeaseState.SUSPECT):
            if before is LeaseState.SUSPECT and state is LeaseState.HELD:
                news.append(RenewalRecovered(hold.name, hold.owner))
            self._holds.watch(hold)
        return state is LeaseState.LOST

    def report(self, hold: Hold, reason: str = "", cause: str = "") -> None:
        """Tell of a loss: once, by log, event and callback."""
        with self._mutex:
            if hold.reported:
                return
            hold.reported = True
            self._holds.unwatch(hold)
            if not hold.owner_key.alive:
                self._holds.remove(hold)  # nobody is left to release it
            reason = reason or hold.reason
            signal, on_lost = hold.signal, hold.options.on_lost
        held = self._clock() - hold.acquired_at
        if signal is not None:
            signal.set()
        try:
            emit_in_order(hold, Lost(hold.name, hold.owner, held, cause or hold.cause, reason))
        finally:
            # Behind the log record, for it may end the process; whatever interrupts those who are told.
            if on_lost is not None:
                self._connect_options(on_lost, LeaseLostError(hold.name, reason))


def _failed(renewals: Sequence[Renewal]) -> int:
    return sum(renewal.event is LeaseEvent.FAILED for renewal in renewals)
