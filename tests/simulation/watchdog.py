"""The watchdog of a simulated client: the real one, but that it yields where a thread would block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlock._sync import watchdog
from rlock._sync.watchdog import SLACK_S
from rlock.errors import RLockError
from rlock.model import LeaseState
from rlock.procedures.renew import heal, renew
from rlock.rules.holds import Due, Hold
from rlock.rules.timing import LINGER_S

from .driver import Bench, Program, Thread, Wait, Waits

if TYPE_CHECKING:
    from .client import Client


class Watchdog(watchdog.Watchdog):
    """One thread of the client, as long as something is held."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.holds, client.mutex, client.clock, client._renew, client._heal)
        self._client = client
        self._bench = Bench()
        self._runs = False

    def ensure(self) -> None:
        self._needed_until = self._clock() + LINGER_S
        if not self._runs and not self._closed:
            self._runs = True
            client = self._client
            # Later, because the caller has the mutex.
            client.after(0.0, lambda: Thread(client, f"{client.label}/watchdog").start(self._running()))

    def watch(self, hold: Hold) -> None:
        super().watch(hold)
        self._bench.poke()

    def _running(self) -> Program:
        while True:
            due = yield from self._waiting()
            if due is None:
                self._runs = False
                return
            try:
                yield from self._looking_after(due)
            except RLockError:
                pass  # the client is gone; anything else is an error that the real one would only log

    def _waiting(self) -> Waits[list[Hold] | None]:
        while not self._closed:
            now = self._clock()
            due = self._holds.take_due(now, SLACK_S)
            if due:
                return due
            if not self._holds.watched and now >= self._needed_until:
                break
            next_due = self._holds.next_due()
            wake_at = now + LINGER_S if next_due is None else next_due
            self._wake_at = math.inf

            def sooner(wake_at: float = wake_at) -> bool:
                next_due = self._holds.next_due()
                return next_due is not None and next_due < wake_at

            yield Wait(wake_at - now, self._bench, sooner)
        return None

    def _looking_after(self, due: Sequence[Hold]) -> Waits[None]:
        now = self._clock()
        perform, terms = self._client.driver.performing, self._client.terms
        renewing: list[Hold] = []
        lost: list[Hold] = []
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
            hold.stopped = why
            hold.schedule(Due.END, now)
            self._holds.watch(hold)
        if renewing:
            round_ = yield from perform(renew(terms, renewing))
            lost += self._apply_all(round_.decided)
        for hold in lost:
            self.report(hold)
        if renewing:
            until = self._holds.next_due() or math.inf
            for hold in self._apply_all((yield from perform(heal(terms, round_, until)))):
                self.report(hold)
