"""Masters that come back without their memory, and get it back from the holders: healing."""

from __future__ import annotations

import time

import pytest

import rlock

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from .restarting import GUARD, a_client, everywhere, holders


@pytest.mark.rule("3.7")
def test_a_lock_outlives_a_rolling_restart_of_every_master(fresh_masters: FreshMasters) -> None:
    """Back to empty, one after another, each as soon as the lock is on the last one again."""
    fleet = fresh_masters(3)
    with a_client(fleet) as client:
        lock = client.lock("x")
        assert lock.acquire(timeout=5)
        token, owner = lock.fencing_token, client.status("x").holder
        for master in fleet:
            master.restart(empty=True)
            assert eventually(lambda: everywhere(client), within=5)
            lock.check()
        assert holders(client) == [owner] * 3
        assert not lock.lost.is_set()
        lock.release()
        assert lock.acquire(timeout=2 * GUARD)
        assert lock.fencing_token > token


def test_a_short_lease_is_renewed_while_a_master_that_is_owed_an_answer_hangs(
    fresh_masters: FreshMasters,
) -> None:
    fleet = fresh_masters(3)
    with rlock.Client(fleet.urls) as client:
        with client.lock("y"):
            pass
        long, short = client.lock("long"), client.lock("short", ttl=0.3)
        assert long.acquire(timeout=5)
        fleet[2].pause()
        time.sleep(0.235)  # its first renewal is about to find that out
        assert short.acquire(timeout=5)
        time.sleep(1.0)
        short.check()
        short.release()
        long.release()
