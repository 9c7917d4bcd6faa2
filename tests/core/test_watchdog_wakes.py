"""When the watchdog is woken, and its repeated calls."""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from rlock._async.runtime import Runtime as AsyncRuntime
from rlock._client import watchdog
from rlock._client.watchdog import OnLost
from rlock.errors import LeaseLostError
from rlock.rules.holds import Hold, Holds, OwnerKey, ThreadLiveness
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.timing import LINGER_S, renew_period

LIVENESS = ThreadLiveness()
KEY = OwnerKey("a", weakref.ref(LIVENESS))


class Watchdog(watchdog.Watchdog):
    def _start(self) -> None: ...

    def _ended(self) -> None: ...

    def stop(self) -> None: ...

    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None: ...


@pytest.mark.parametrize("ttl", [0.1, 0.2, 0.5, 1.0, 10.0])
def test_a_sleeping_watchdog_renews_a_new_hold_in_the_first_half_of_its_lease(ttl: float) -> None:
    """Otherwise a renewal of a short lease could not fail once and be tried again in time."""
    for hundredth in range(1, 100):
        woken: list[bool] = []
        parker = SimpleNamespace(wake=lambda woken=woken: woken.append(True))
        asleep_at, now = 100.0, 100.0 + LINGER_S * hundredth / 100
        engine: Any = SimpleNamespace(
            holds=Holds(),
            mutex=threading.Lock(),
            clock=lambda now=now: now,
            runtime=SimpleNamespace(parker=lambda parker=parker: parker),
        )
        dog = Watchdog(engine)
        dog._wake_at = asleep_at + LINGER_S
        lease = ClientOptions(ttl).lease(ttl)
        hold = Hold(KEY, LockOptions("x", lease), "me:1", now, token=1)
        dog.watch(hold)
        renewed_at = max(now, hold.renewal.due_at) if woken else dog._wake_at
        assert renewed_at - now <= renew_period(ttl) * 5 / 4 + 1e-9 < math.inf


def test_an_exception_does_not_end_the_calls_of_an_event_loop() -> None:
    calls: list[int] = []

    def function() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")
        return len(calls) < 3

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        AsyncRuntime().repeat(0.01, function)
        await asyncio.sleep(0.3)

    asyncio.run(main())
    assert len(calls) == 3
