"""The task that renews, what a loss of its lock means to a task, and a loop that does not run."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import rlock
from rlock._async.runtime import Runtime
from rlock.asyncio import Client, RLock

from ..servers import Fleet
from .conftest import TTL, Eyes, Run, free_at_once, soon

SHORT = 0.5


def _cancel_all() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_at_the_end_of_asyncio_run_a_holder_may_clean_up_beyond_the_ttl(run: Run, eyes: Eyes) -> None:
    said: list[str] = []

    async def hold(lock: RLock, held: asyncio.Event) -> None:
        try:
            async with lock:
                try:
                    held.set()
                    await asyncio.sleep(60)
                finally:
                    for _ in range(12):
                        await asyncio.sleep(SHORT / 4)
                        lock.check()
                    said.append("cleaned up")
        except asyncio.CancelledError:
            said.append("released")
            raise

    async def main() -> object:
        client, held = Client(eyes.urls, SHORT), asyncio.Event()
        task = asyncio.ensure_future(hold(client.lock("x"), held))
        await held.wait()
        return task

    run(main())
    assert said == ["cleaned up", "released"]
    assert eyes.keys() == []


def test_locks_of_ended_tasks_are_released_promptly_at_the_end_of_asyncio_run(run: Run, eyes: Eyes) -> None:
    began = 0.0

    async def leave(lock: RLock) -> None:
        await lock.acquire()

    async def main() -> None:
        nonlocal began
        client = Client(eyes.urls, TTL)
        await asyncio.gather(*[leave(client.lock(f"child-{i}")) for i in range(20)])
        await client.lock("mine").acquire()
        began = time.monotonic()

    run(main())
    assert time.monotonic() - began < 1.0
    assert eyes.keys() == []


async def _stay(lock: RLock) -> None:
    async with lock:
        await asyncio.sleep(60)


async def test_a_fixed_lease_of_a_task_that_has_ended_is_forgotten_at_its_end(eyes: Eyes) -> None:
    async with Client(eyes.urls, SHORT) as client:
        await asyncio.create_task(client.lock("x", renew=False).acquire())
        assert await soon(lambda: not len(client._engine().holds))


async def test_what_has_to_wait_for_a_mutex_runs_in_the_event_loop_and_in_no_thread() -> None:
    ran = list[int]()
    Runtime().later(lambda: ran.append(threading.get_ident()))
    await asyncio.sleep(0)
    assert ran == [threading.get_ident()]


async def test_what_a_master_is_owed_is_delivered_also_when_the_dial_for_it_was_cancelled(
    masters: Fleet, eyes: Eyes
) -> None:
    async with Client(eyes.urls, TTL, request_timeout=0.1) as client:
        lock = client.lock("x")
        await lock.acquire()
        await soon(lambda: len(eyes.keys()) == 3)
        masters[2].pause()
        while (await client.status("x")).masters[2].fault is None:
            await asyncio.sleep(0.01)
        await lock.release()
        # Nobody uses the client from now on.
        await asyncio.sleep(0.1)
        _cancel_all()
        await asyncio.sleep(0.1)
        masters[2].resume()
        assert await soon(lambda: not eyes.keys(), TTL / 2), "the release was not delivered"


async def test_a_hold_is_renewed_on_when_all_tasks_but_the_holder_are_cancelled(eyes: Eyes) -> None:
    async with Client(eyes.urls, SHORT) as client, Client(eyes.urls, SHORT) as other:
        async with client.lock("a"):
            for turns in (0, 1, 3, 10):
                waiter = asyncio.ensure_future(_stay(client.lock("a")))
                await asyncio.sleep(SHORT / 2)
                for _ in range(turns):
                    await asyncio.sleep(0)
                _cancel_all()
                await asyncio.wait([waiter])
            _cancel_all()
            await asyncio.sleep(SHORT * 2)
            client.lock("a").check()
            # A hold that came after the cancellation is looked after, too.
            async with client.lock("c"):
                await asyncio.sleep(SHORT * 1.5)
                client.lock("c").check()
        await free_at_once(other, "a")
        await free_at_once(other, "c")
        async with client.lock("d"):
            await asyncio.sleep(SHORT * 1.5)
            client.lock("d").check()


async def test_a_coroutine_that_blocks_the_loop_for_longer_than_the_ttl_has_lost_its_lock(
    eyes: Eyes, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[rlock.LeaseLostError] = []

    async with Client(eyes.urls, SHORT) as client, Client(eyes.urls, SHORT) as other:
        lock = client.lock("x", on_lost=told.append)
        await lock.acquire()
        lost = lock.lost
        assert not lost.is_set()
        time.sleep(SHORT + 0.2)
        # Known before anything else could run.
        assert lost.is_set()
        assert not lock.is_owned()
        with pytest.raises(rlock.LeaseLostError):
            lock.check()
        assert await soon(lambda: "the event loop did not run" in caplog.text)
        assert await soon(lambda: len(told) == 1)
        with pytest.raises(rlock.LeaseLostError):
            await lock.release()
        assert lock.hold_count == 0
        await free_at_once(other, "x")
        async with lock:
            lock.check()
    assert len(told) == 1
