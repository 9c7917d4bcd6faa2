"""Blocking clients and those for tasks on the same masters: one lock, one queue, one row of tokens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial

import rlock
from rlock.asyncio import Client
from rlock.rules.keys import queue

from .conftest import Run
from .stepping import TTL, Eyes, soon


def in_thread(work: Callable[[], object]) -> asyncio.Future[object]:
    """The result of what may block, in a thread that is its own."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def live() -> None:
        try:
            result = work()
        except BaseException as error:
            loop.call_soon_threadsafe(future.set_exception, error)
        else:
            loop.call_soon_threadsafe(future.set_result, result)

    threading.Thread(target=live, daemon=True).start()
    return future


def test_fair_order_goes_across_threads_and_tasks(run: Run, eyes: Eyes) -> None:
    order: list[int] = []

    async def main() -> None:
        with rlock.Client(eyes.urls, TTL) as blocking:
            async with Client(eyes.urls, TTL) as tasks, Client(eyes.urls, TTL) as more:

                def thread(number: int) -> None:
                    with blocking.lock("x", fair=True):
                        order.append(number)

                async def task(number: int) -> None:
                    async with (tasks if number % 2 else more).lock("x", fair=True):
                        order.append(number)

                async with tasks.lock("x", fair=True):
                    waiting: list[asyncio.Future[object]] = []
                    for i in range(9):
                        waiting.append(in_thread(partial(thread, i)) if i % 3 == 0 else _future(task(i)))
                        assert await soon(partial(_stand, eyes, i + 1))
                await asyncio.wait_for(asyncio.gather(*waiting), 10)

    run(main())
    assert order == list(range(9))


def _stand(eyes: Eyes, places: int) -> bool:
    # On all masters: only who stood on a quorum before another one came is promised to be before it.
    return {int(one.zcard(queue("x"))) for one in eyes.raws} == {places}


def _future(work: Coroutine[object, object, None]) -> asyncio.Future[object]:
    return asyncio.ensure_future(work)
