"""Rounds of several threads over the same connections: one of them reads for all."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import pytest

import rlock
from rlock._driver.rounds import Round
from rlock._driver.waits import Waits

from ..servers import Fleet

FreshMasters = Callable[..., Fleet]


def test_who_was_kept_from_running_until_its_time_was_over_reads_its_answers_all_the_same(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rlock.Client(fresh_masters(3).urls) as client:
        lock = client.lock("x")
        with lock:
            pass
        fanout: Any = client._engine()._fanout
        links = [slot.link for slot in fanout._roster.slots if slot.link is not None]
        clock, finishing = fanout._clock, fanout._finishing
        late = 0.0

        def kept_from_running(turn: Round) -> Waits[None]:
            nonlocal late
            # The thread that was to read for this one has gone on meanwhile.
            fanout._leader = None
            for link in links:
                assert select.select([link.socket], [], [], 20.0)[0], "a master has not answered"
            late = turn.ask.timeout * 1.1
            yield from finishing(turn)

        monkeypatch.setattr(fanout, "_clock", lambda: clock() + late)
        monkeypatch.setattr(fanout, "_finishing", kept_from_running)
        assert lock.acquire(timeout=0), "the answers were there, and nobody read them"
        assert late
        late = 0.0
        monkeypatch.undo()
        lock.release()
