"""`client.leader`: who leads, who is told when, and what is left behind."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

import rlock
import rlock.asyncio
from rlock import Client
from rlock.recipes.leader import Leader
from rlock.testing import memory_client
from rlock.testing.memory import MemoryMasters

from ..fixtures import FreshMasters
from .conftest import MakeClient, eventually
from .test_lifecycle import forked

pytestmark = pytest.mark.kinds("blocking", "memory")
EVERY_KIND = True
Caplog = pytest.LogCaptureFixture


def told(client: rlock.Client, seen: list[Any]) -> Leader:
    return client.leader("beat", seen.append, lambda: seen.append("stopped"))


def waiting(client: rlock.Client) -> int:
    return client.status("beat").queue_length


def over(leader: Leader, reason: str) -> None:
    with pytest.raises(rlock.RLockError, match=f"campaigns no more: .*{reason}"):
        leader.wait(10)


def test_the_next_process_leads_when_the_first_one_leaves(connect: MakeClient) -> None:
    first, second, seen, other = connect(), connect(), list[Any](), list[Any]()
    with told(second, other) as standby:
        assert standby.wait(10)
        with told(first, seen) as leader:
            assert eventually(lambda: waiting(first))
            assert not leader.wait(0.1)
            assert not leader.is_leader()
            with pytest.raises(rlock.LeaseLostError):
                _ = leader.token
            assert "rlock-leader" in str(leader.leader())
            token = standby.token
            standby.resign()
            assert not standby.is_leader()
            assert leader.wait(10)
            assert other == [token, "stopped"]
            assert seen == [leader.token]
            assert leader.token > token
            # Behind the other: it leads again as soon as that one leaves.
            assert eventually(lambda: waiting(first))
        assert standby.wait(10)
    assert first.leader("beat").leader() is None
    assert seen[1:] == ["stopped"]
    assert not leader.is_leader()
    over(leader, "block was left")
    with pytest.raises(RuntimeError, match="used already"), leader:
        pass


def test_a_standby_that_leaves_leaves_nothing_behind(client: Client, other: Client) -> None:
    with client.lock("beat"), ThreadPoolExecutor() as threads:
        with other.leader("beat") as leader:
            waiter = threads.submit(over, leader, "block was left")
            assert eventually(lambda: waiting(client))
        waiter.result(2)
        assert eventually(lambda: not waiting(client))
    assert not other.lock("beat").locked()
    assert not [thread for thread in threading.enumerate() if thread.name == "rlock-leader"]


def test_the_lock_is_released_when_on_stopped_has_returned(connect: MakeClient) -> None:
    first, second, go_on = connect(ttl=1.0), connect(ttl=1.0), threading.Event()
    with first.leader("beat", on_stopped=lambda: go_on.wait(20)) as leader, second.lock("connects it"):
        assert leader.wait(10)
        with second.leader("beat") as standby:
            assert eventually(lambda: waiting(first))
            leader.resign()
            assert not standby.wait(2.5), "longer than the lease, which is renewed until on_stopped returns"
            assert not leader.is_leader()
            go_on.set()
            assert standby.wait(10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_observer_that_fails_hands_over(client: Client, other: Client, caplog: Caplog) -> None:
    seen = list[Any]()

    def broken(token: int) -> None:
        raise ValueError(token)

    def broken_too() -> None:
        seen.append("stopped")
        raise ValueError

    with client.leader("beat", broken, broken_too) as leader:
        assert eventually(lambda: seen)
        time.sleep(0.5)
        assert len(seen) == 1, "it campaigns again and again"
        with other.leader("beat") as standby:
            assert standby.wait(10)
            assert not leader.wait(0.1)
    assert seen[0] == "stopped"
    assert "broken of leader 'beat' raised" in caplog.text
    assert "broken_too of leader 'beat' raised" in caplog.text
    with client.leader("beat", lambda token: sys.exit(3)) as leader:
        over(leader, "thread or task ended")
    assert "leader 'beat' campaigns no more: SystemExit(3)" in caplog.text


def test_a_closed_client_ends_the_campaign(connect: MakeClient) -> None:
    client, seen = connect(ttl=8.0), list[Any]()
    leader = told(client, seen)
    with pytest.raises(RuntimeError, match="use it in a `with` block first"):
        leader.wait()
    with pytest.raises(rlock.LeaseLostError, match="lock 'beat': this process does not"):
        _ = leader.token
    with leader:
        assert leader.wait(10)
        client.close()
        assert not leader.is_leader()
        # At once, not after a quarter of the ttl.
        assert eventually(lambda: seen[1:] == ["stopped"], 1.5)
        over(leader, "client is closed")
    with pytest.raises(rlock.RLockError, match="is closed"), client.leader("beat"):
        pass


@pytest.mark.kinds("blocking")
def test_a_leader_stops_before_its_lease_ends(
    fresh_masters: FreshMasters, make_client: MakeClient, caplog: Caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters, go_on = fresh_masters(3), threading.Event()
    client = make_client(masters.urls, ttl=2.0)
    lock, left = client.lock("beat"), []

    def stopped() -> None:
        left.append((lock.remaining(), leader.is_leader()))
        if len(left) == 1:
            time.sleep(left[0][0] + 0.1)

    with client.leader("beat", on_stopped=stopped) as leader:
        assert leader.wait(10)
        monkeypatch.setattr(logging.getLogger("rlock"), "filters", [lambda _: go_on.wait(20)])  # blocked
        masters.pause()
        assert eventually(lambda: left)
        go_on.set()
        assert 0.05 < left[0][0] <= 0.5, "a quarter of the ttl, unless this machine is slow"
        assert not left[0][1]
        assert eventually(lambda: "on_stopped returned after the lease had ended" in caplog.text)
        masters.resume()
        assert leader.wait(20)


@pytest.mark.kinds("memory")
def test_a_leader_that_was_stopped_past_its_lease_knows_it_at_once(client: Client) -> None:
    with client.leader("beat") as leader:
        assert leader.wait(10)
        holds = client._engine().holds
        now = holds.clock
        with patch.object(holds, "clock", lambda: now() + client.ttl):
            assert not leader.is_leader()


@pytest.mark.kinds("memory")
def test_an_observer_that_a_thread_could_not_await_is_refused(connect: MakeClient) -> None:
    class Observer:
        async def __call__(self, *_: object) -> None: ...

    client: Any = connect()
    for observer in (Observer(), Observer.__call__):
        for option in ("on_started", "on_stopped"):
            with pytest.raises(rlock.OptionsError, match=f"{option} is a coroutine function"):
                client.leader("beat", **{option: observer})
        with pytest.raises(rlock.OptionsError, match="on_lost is a coroutine function"):
            client.lock("x", on_lost=observer)
    with pytest.raises(rlock.OptionsError, match="on_started must be callable"):
        client.leader("beat", 5)


@pytest.mark.kinds("blocking")
def test_a_forked_child_does_not_lead(client: Client) -> None:
    seen = list[Any]()

    def in_the_child() -> object:
        leads = leader.is_leader()
        leader.resign()
        leader.__exit__()
        over(leader, "forked")
        return leads, seen[1:]

    with told(client, seen) as leader:
        assert leader.wait(10)
        assert forked(in_the_child) == "(False, [])"
        assert leader.is_leader()


@pytest.mark.kinds("memory")
@pytest.mark.parametrize("how", ["leave", "cancel"])
def test_tasks_lead_as_threads_do_and_no_cancellation_ends_the_wait_for_on_stopped(how: str) -> None:
    masters, told = MemoryMasters(3), list[Any]()
    campaigns: list[asyncio.Task[None]] = []

    async def started(token: int) -> None:
        await asyncio.sleep(0.01)
        told.append(token)

    async def stop() -> None:
        told.append("stopping")
        await asyncio.sleep(0.3)
        told.append("stopped")

    async def lead(client: rlock.asyncio.Client) -> None:
        async with client.leader("beat", started, stop) as leader:
            assert await leader.wait(10)
            assert told == [leader.token]
            campaigns.append(leader._campaign)
            await asyncio.sleep(3600)

    async def main() -> None:
        first = memory_client(masters=masters, kind=rlock.asyncio.Client)
        async with first, memory_client(masters=masters, kind=rlock.asyncio.Client) as second:
            task = asyncio.create_task(lead(first))
            while not campaigns:
                await asyncio.sleep(0.01)
            async with second.leader("beat", lambda _: told.append("started")) as standby:
                assert not await standby.wait(0.3)
                assert "rlock-leader" in str(await standby.leader())
                assert not standby.is_leader()
                if how == "leave":
                    for _ in range(3):
                        task.cancel()
                        await asyncio.sleep(0.01)
                else:  # as `asyncio.run` does at its end
                    campaigns[0].cancel()
                assert await standby.wait(10)
                assert told[1:] == ["stopping", "stopped", "started"]
            task.cancel()
        assert not [one for one in asyncio.all_tasks() if one.get_name() == "rlock-leader"]

    asyncio.run(main())
