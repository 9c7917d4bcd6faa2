"""The watchdog of a simulated client: one thread, as long as something is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlock._client import watchdog
from rlock.errors import LeaseLostError, RLockError
from rlock.procedures.port import WaitGenerator
from rlock.rules.holds import Hold

from .driver import Bench, Program, Thread, Wait

if TYPE_CHECKING:
    from .client import Client


class Watchdog(watchdog.Watchdog):
    """Renews in a thread of its own."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._client = client
        self._bench = Bench()
        self._runs = False
        self._stirred = False

    def _start(self) -> None:
        if not self._runs:
            self._runs = True
            client = self._client
            # Later, because the caller has the mutex.
            client.after(0.0, lambda: Thread(client, f"{client.label}/watchdog").start(self._running()))

    def _wake(self) -> None:
        self._stirred = True
        self._bench.poke()

    def stop(self) -> None:
        self._closed = True
        self._wake()

    def _running(self) -> Program:
        while (due := (yield from self._waiting())) is not None:
            try:
                yield from self._look_after(due)
            except RLockError:
                pass  # the client is gone; anything else is an error that the real one would only log

    def _waiting(self) -> WaitGenerator[list[Hold] | None]:
        while True:
            with self._mutex:
                if (due := self._take_due()) is None:
                    self._runs = False
                    return None
                self._stirred = False
            if due:
                return due
            yield Wait(self._wake_at - self._clock(), self._bench, lambda: self._stirred)

    def _call_on_lost(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        on_lost(error)
