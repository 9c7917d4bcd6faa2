"""One who hands the lock to another process and comes back at once: it lets that one claim it first."""

from __future__ import annotations

import time

import pytest

import rlock._client.engine
from rlock.rules import timing

from ..servers import Fleet
from .conftest import own_wire
from .queueing import MakeClient, StartChild, counted_attempts, started

pytestmark = own_wire

AWAY_S = 0.2


def test_it_asks_again_when_the_next_owner_has_had_time_to_claim(
    masters3: Fleet, make_client: MakeClient, child: StartChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(masters3.urls)
    lock = client.lock("x", fair=False)
    lock.acquire()
    one = started(child, client, masters3.urls, "default")
    monkeypatch.setattr(rlock._client.engine, "come_back_wait", lambda round_s: AWAY_S)
    with counted_attempts(monkeypatch) as asked:
        lock.release()
        released = time.monotonic()
        assert not lock.acquire(timeout=AWAY_S + 0.2)
        assert asked[0].at - released >= AWAY_S * 0.9
        one.line()  # it has it
        asked.clear()
        began = time.monotonic()
        assert not lock.acquire(timeout=0.05)
        assert asked[0].at - began < AWAY_S / 2, "once, not for ever"
    one.say("")
    one.line()


def test_it_stays_away_for_no_longer_than_a_claim_takes() -> None:
    assert timing.come_back_wait(0.0004) == 0.0004
    assert timing.come_back_wait(0.3) == timing.COME_BACK_S <= 0.001
    assert timing.come_back_wait(-1.0) == 0.0
