"""Masters that restart, forget or hang: the restart guard, healing, and connections that are given up."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rlock
from rlock.rules.keys import NOTE
from rlock.rules.timing import guard_time

from ..cli.shell import inside
from ..faults.checks import everywhere
from ..fixtures import FreshMasters
from ..lock.conftest import eventually, in_background
from ..servers import Fleet, raw

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
TTL = 2.0  # short, so that a test can wait for the end of it; long enough that a renewal can be late
GUARD = guard_time(TTL)


def a_client(fleet: Fleet, **options: Any) -> rlock.Client:
    return rlock.Client(fleet.urls, TTL, max_ttl=TTL, **options)


def refused(lock: rlock.RLock, **how: Any) -> bool:
    """Not granted: somebody has it, or a master that may have had the holder's vote has lost its memory."""
    try:
        return not lock.acquire(**how)
    except rlock.QuorumUnreachableError:
        return True


@pytest.mark.rule("3.6")
def test_a_lease_that_a_restarted_master_has_forgotten_is_not_given_to_a_second_owner(
    fresh_masters: FreshMasters,
) -> None:
    """The hole of Redlock in six steps: A holds {1, 2}; 2 restarts empty; B gets {2, 3}."""
    fleet = fresh_masters(3)
    with a_client(fleet) as anna, a_client(fleet) as ben:
        with ben.lock("other"):
            pass  # so that it is connected
        fleet[2].pause()
        assert anna.lock("x", renew=False).acquire(timeout=5)
        fleet[2].resume()
        began = time.monotonic()
        fleet[1].restart(empty=True)
        assert refused(ben.lock("x"), timeout=0.5)
        assert anna.lock("x").is_owned()
        assert ben.lock("x").acquire(timeout=10)
        assert not anna.lock("x").is_owned(), "two valid leases"
        assert time.monotonic() - began > TTL - 0.5


def test_a_new_deployment_can_be_used_at_once_after_rlock_init(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    for master in fleet:
        master.restart(empty=True)
    with rlock.Client(fleet.urls) as waiting:
        got = in_background(lambda: waiting.lock("x").acquire(timeout=8))
        time.sleep(0.5)
        assert not got.done()
        found = inside("init", masters=fleet.urls)
        assert (found.code, found.out.splitlines()) == (0, [f"{name}: ready" for name in fleet.labels])
        assert got.result(4), "those who wait already hear of it"
    with rlock.Client(fleet.urls) as client:
        assert client.lock("y").acquire(blocking=False)


def test_init_tells_which_masters_did_not_take_note(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    fleet[1].kill()
    with a_client(fleet) as client:
        told = client.init()
    assert [told[name] is None for name in fleet.labels] == [True, False, True]
    assert "refused" in str(told[fleet.labels[1]])
    for urls in (fleet.urls, fleet.urls[1:2]):
        assert inside("init", masters=urls).code == 69
    with a_client(fleet, restart_guard=0) as client, pytest.raises(rlock.OptionsError, match="turned"):
        client.init()


@pytest.mark.rule("3.6")
def test_a_connection_from_before_config_set_does_not_call_a_master_durable(
    fresh_masters: FreshMasters,
) -> None:
    """Otherwise a crash under `everysec` and a start with `always` would keep a vote that was lost."""
    fleet = fresh_masters(1, args=DURABLE)
    with a_client(fleet) as client:
        assert client.lock("x").acquire(timeout=10)
        master = raw(fleet[0].url)
        assert ":durable " in str(master.get(NOTE))
        master.config_set("appendfsync", "everysec")
        master.flushall()
        assert client.lock("y").acquire(timeout=10)
        assert ":durable " not in str(master.get(NOTE))


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
            assert eventually(lambda: everywhere(fleet.urls), within=5)
            lock.check()
        assert client.status("x").holder == owner
        assert not lock.lost.is_set()
        lock.release()
        assert lock.acquire(timeout=2 * GUARD)
        assert lock.fencing_token > token


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
