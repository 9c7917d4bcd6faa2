"""Masters that die, stall, restart or forget: what a caller sees."""

from __future__ import annotations

import pytest

import rlock

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import raw


def cycle(lock: rlock.RLock) -> bool:
    assert lock.acquire(timeout=5.0)
    lock.release()
    return True


@pytest.mark.rule("3.4")
def test_a_connection_that_was_given_up_with_requests_unanswered_is_killed_before_the_next_is_used(
    fresh_masters: FreshMasters, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that goes on reads it in any order beside the new one: an acquire behind its own release."""
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls, ttl=3.0) as client:
        lock = client.lock("x")
        cycle(lock)
        server = client._engine().masters._connections.servers[0]
        assert eventually(lambda: cycle(lock) and server.connection is not None)
        assert server.connection is not None
        old = server.connection.connection_id
        fleet[0].pause()
        assert eventually(lambda: cycle(lock) and server.connection is None), "it was never given up"
        assert [number for _, number in server.kill] == [old]
        fleet[0].resume()
        assert eventually(lambda: cycle(lock) and server.connection is not None)
        assert server.kill == []
        stats = raw(fleet[0].url).info("commandstats")
        if any("|" in command for command in stats):  # Redis 6.2 does not tell subcommands apart
            assert stats["cmdstat_client|kill"]["calls"] >= 1
