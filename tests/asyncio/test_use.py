"""``on_lost`` and ``lost`` of tasks, and what who uses a lock wrongly is told."""

from __future__ import annotations

import asyncio
import time

import pytest

import rlock
from rlock.asyncio import Client

from .conftest import Run
from .stepping import TTL, Eyes, free_at_once, nothing_left, soon

SHORT = 0.6
#: A loss by an operator is noticed within a third of it, one that goes unnoticed ends with it.
LONG = 3.0


def test_on_lost_is_called_once_in_the_event_loop_whether_or_not_it_is_a_coroutine_function(
    run: Run, eyes: Eyes
) -> None:
    told: list[tuple[str, rlock.LeaseLostError]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def plain(error: rlock.LeaseLostError) -> None:
            assert asyncio.get_running_loop() is loop
            told.append(("plain", error))

        async def coroutine(error: rlock.LeaseLostError) -> None:
            await asyncio.sleep(0.01)
            assert asyncio.get_running_loop() is loop
            told.append(("coroutine", error))

        async with Client(eyes.urls, SHORT) as client, Client(eyes.urls, SHORT) as operator:
            locks = [client.lock("a", on_lost=plain), client.lock("b", on_lost=coroutine)]
            for lock in locks:
                await lock.acquire()
                await lock.acquire()
                assert await operator.evict(lock.name)
            assert await soon(lambda: len(told) == 2)
            assert {kind: error.name for kind, error in told} == {"plain": "a", "coroutine": "b"}
            for lock in locks:
                assert lock.lost.is_set()
                for _ in range(2):
                    with pytest.raises(rlock.LeaseLostError):
                        await lock.release()
            await asyncio.sleep(SHORT)
            assert len(told) == 2

    run(main())


def test_a_wait_for_a_loss_ends_with_it_and_not_before(run: Run, eyes: Eyes) -> None:
    async def main() -> None:
        async with Client(eyes.urls, LONG) as client, Client(eyes.urls, LONG) as operator:
            lock = client.lock("x")
            assert await lock.lost.wait(0.01) is False, "nothing is held"
            await lock.acquire()
            lost = lock.lost
            began = time.monotonic()
            assert await lost.wait(0.1) is False
            assert await lost.wait(0) is False
            assert 0.08 < time.monotonic() - began < 1.0
            waiting = [asyncio.ensure_future(lost.wait(timeout)) for timeout in (None, 10.0)]
            await asyncio.sleep(0.3)
            assert not any(task.done() for task in waiting)
            await operator.evict("x")
            assert await asyncio.wait_for(asyncio.gather(*waiting), LONG * 0.7) == [True, True]
            assert await lost.wait(0) is True
            with pytest.raises(rlock.LeaseLostError):
                await lock.release()
            async with lock:
                assert not lock.lost.is_set(), "another hold"
                assert lost.is_set()

    run(main())


def test_in_a_callback_of_a_loop_that_is_no_task_a_lock_cannot_be_taken(run: Run, eyes1: Eyes) -> None:
    said: list[str] = []

    async def main() -> None:
        async with Client(eyes1.urls, TTL) as client:
            lock = client.lock("x")
            async with lock:

                def callback() -> None:
                    for work in (lock.acquire(), lock.release()):
                        try:
                            work.send(None)
                        except RuntimeError as error:
                            said.append(str(error))

                asyncio.get_running_loop().call_soon(callback)
                await asyncio.sleep(0.01)
                assert lock.hold_count == 1
            await free_at_once(client, "x")
            await nothing_left(eyes1, client)

    run(main())
    assert len(said) == 2
    assert all("task" in one for one in said)


def test_decorated_calls_nest_in_one_task_and_a_task_that_is_made_waits(run: Run, eyes: Eyes) -> None:
    async def main() -> None:
        counts: list[int] = []
        async with Client(eyes.urls, LONG) as client:

            @rlock.locked(client, "x", timeout=0.3, on_busy="skip")
            async def inner() -> str:
                counts.append(client.lock("x").hold_count)
                return "done"

            @rlock.locked(client, "x", blocking=False)
            async def outer(depth: int) -> int:
                assert await inner() == "done"
                assert await asyncio.create_task(inner()) is None
                return depth and 1 + (await outer(depth - 1) or 0)

            assert asyncio.iscoroutinefunction(outer)
            assert await outer(2) == 2
            assert counts == [2, 3, 4]
            await nothing_left(eyes, client)

    run(main())
