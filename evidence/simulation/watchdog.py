"""The watchdog of a simulated client: one thread, as long as something is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlock._client import watchdog
from rlock._client.watchdog import OnLost
from rlock.errors import LeaseLostError
from rlock.procedures.renew import RenewalOutcome
from rlock.rules.holds import Hold
from rlock.rules.lease import LeaseEvent

from .driver import Thread

if TYPE_CHECKING:
    from .client import Client


class Watchdog(watchdog.Watchdog):
    """Renews in a thread of its own."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.holds, client.masters)
        self._client = client
        self._runs = False

    def _start(self) -> None:
        if not self._runs:
            self._runs = True
            client = self._client
            # Later, because the caller has the mutex.
            client.after(0.0, lambda: Thread(client, f"{client.label}/watchdog").start(self._run_gen()))

    def _apply(self, outcomes: Sequence[RenewalOutcome]) -> list[Hold]:
        lost = super()._apply(outcomes)
        if self._client.world.recorder is not None:
            self._client.world.recorder.renewed(outcomes)
        for hold, event, _ in outcomes:
            if event is LeaseEvent.FAILED:
                self._client.world.happens("suspect", self._client, None, hold.owner)
        return lost

    def report_loss(self, hold: Hold, reason: str = "", cause: str = "") -> None:
        self._client.world.on_lost(self._client, hold)
        super().report_loss(hold, reason, cause)

    def _ended(self) -> None:
        self._runs = False

    def _failed(self, error: BaseException) -> None:
        raise error  # a real client would log it, and hide a defect from the test

    def stop(self) -> None:
        self.stopped = True
        self._parker.wake()

    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None:
        on_lost(error)
