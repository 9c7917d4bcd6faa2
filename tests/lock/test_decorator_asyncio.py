"""rlock.locked on coroutine functions, with rlock.asyncio on real masters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import rlock
import rlock.asyncio

from ..servers import Fleet, left

Main = Callable[[rlock.asyncio.Client, rlock.asyncio.Client], Awaitable[None]]
Run = Callable[[Main], None]


@pytest.fixture
def masters(real_masters: Fleet) -> Fleet:
    """Servers only: the kinds of client of this folder have no part in it."""
    return real_masters(3)


@pytest.fixture
def run(masters: Fleet) -> Run:
    """``run(main)``: with a client and a stranger, in an event loop of its own; nothing is left behind."""

    def loop(main: Main) -> None:
        async def limited() -> None:
            kind = rlock.asyncio.Client
            async with kind(masters.urls, 3) as client, kind(masters.urls, 3) as stranger:
                await asyncio.wait_for(main(client, stranger), 30)
                # Before the clients are closed, which would release what was forgotten.
                keys = [key for url in masters.urls for key in left(url)]
                assert not [key for key in keys if ":evicted:" not in key]

        asyncio.run(limited())

    return loop


def test_calls_nest_in_one_task_and_a_task_that_is_made_waits(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        counts: list[int] = []

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
        assert client.lock("x").hold_count == 0

    run(main)


def test_the_exception_of_the_body_comes_out_and_a_loss_never_in_its_place(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        @rlock.locked(client, "x", timeout=5)
        async def work(lose: bool, fail: bool) -> None:
            if lose:
                await stranger.evict("x")
                assert await work.lock(lose, fail).lost.wait(20)
            if fail:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work(False, True)
        assert not await client.lock("x").locked()
        with pytest.raises(ZeroDivisionError):
            await work(True, True)
        with pytest.raises(rlock.LeaseLostError):
            await work(True, False)

    run(main)


def test_a_client_that_a_factory_makes_is_made_once_and_outlives_an_event_loop(masters: Fleet) -> None:
    made: list[rlock.asyncio.Client] = []

    def factory() -> rlock.asyncio.Client:
        made.append(rlock.asyncio.Client(masters.urls, 3))
        return made[-1]

    @rlock.locked(factory, "x", blocking=False)
    async def work() -> bool:
        return made[0].lock("x").is_owned()

    async def main(last: bool) -> list[bool | None]:
        found = [*await asyncio.gather(work(), work())]
        if last:
            await made[0].close()
        return found

    assert not made
    for last in (False, True):
        found = asyncio.run(main(last))
        assert found.count(True) == found.count(None) == 1
    assert len(made) == 1
    assert not [key for url in masters.urls for key in left(url)]
