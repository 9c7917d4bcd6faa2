"""Rounds of several threads over the same connections: one of them reads for all."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import pytest

import rlock
from rlock._client.pipeline import PendingCall
from rlock.procedures.port import WaitGenerator

from ..servers import Fleet

FreshMasters = Callable[..., Fleet]


def test_who_was_kept_from_running_until_its_time_was_over_reads_its_answers_all_the_same(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rlock.Client(fresh_masters(3).urls) as client:
        lock = client.lock("x")
        with lock:
            pass
        calls: Any = client._engine().masters
        links = [server.connection for server in calls._connections.servers if server.connection is not None]
        clock, finishing = calls._clock, calls._finish
        late = 0.0

        def kept_from_running(call: PendingCall) -> WaitGenerator[None]:
            nonlocal late
            # The thread that was to read for this one has gone on meanwhile.
            calls._leader = None
            for connection in links:
                assert select.select([connection.socket], [], [], 20.0)[0], "a master has not answered"
            late = call.request.timeout * 1.1
            yield from finishing(call)

        monkeypatch.setattr(calls, "_clock", lambda: clock() + late)
        monkeypatch.setattr(calls, "_finish", kept_from_running)
        assert lock.acquire(timeout=0), "the answers were there, and nobody read them"
        assert late
        late = 0.0
        monkeypatch.undo()
        lock.release()
