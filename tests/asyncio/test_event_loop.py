"""What an event loop may do to a client: eager tasks, a cancelled close; names with a dead address."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

import rlock
from rlock.asyncio import Client
from rlock.testing import MemoryMasters

from ..lock.conftest import in_background
from ..servers import Fleet
from .conftest import AT_ONCE_S, TTL, Eyes, Run, soon

EVERY_LOOP = True

SHORT = 0.6


def _eager(loop: Any, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    """Where Python is older than 3.12: runs the first step of a task before it returns."""
    task = asyncio.Task(work, loop=loop, **options)
    first, caller = loop._ready.pop(), asyncio.current_task(loop)
    if caller is not None:
        asyncio.tasks._leave_task(loop, caller)
    first._run()
    if caller is not None:
        asyncio.tasks._enter_task(loop, caller)
    return task


eager: Any = getattr(asyncio, "eager_task_factory", _eager)


@pytest.mark.parametrize("kind", ["servers", "in memory"])
def test_a_loop_that_starts_tasks_eagerly_does_not_dead_lock(run: Run, eyes: Eyes, kind: str) -> None:
    """Masters in memory: connecting to one of these suspends nowhere, so it is over within an eager start."""
    if run is not asyncio.run and eager is _eager:
        pytest.skip("uvloop runs no task eagerly before Python 3.12")
    order: list[int] = []

    async def work(client: Client, number: int) -> None:
        async with client.lock("x", fair=True):
            order.append(number)
            await asyncio.sleep(0.002)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(eager)
        begun: list[int] = []

        async def begin() -> None:
            begun.append(1)

        task = loop.create_task(begin())
        assert begun, "not eager"
        await task
        async with Client([*MemoryMasters(3)] if kind == "in memory" else eyes.urls, SHORT) as client:
            async with client.lock("x"):
                tasks = [loop.create_task(work(client, number)) for number in range(4)]
                await asyncio.sleep(SHORT * 1.5)
                client.lock("x").check()  # it was renewed
                assert order == []
            await asyncio.wait_for(asyncio.gather(*tasks), 10)

    # In a thread that nobody waits for at the end: a loop that waits for its own mutex does so for ever.
    in_background(lambda: run(main())).result(15)
    assert sorted(order) == [0, 1, 2, 3]


@pytest.mark.parametrize(("turns", "times"), [(1, 1), (5, 3)])
async def test_a_cancelled_close_waits_until_slow_masters_have_done_what_they_were_sent(
    masters: Fleet, eyes: Eyes, turns: int, times: int
) -> None:
    # More than a server reads at once: it forgets the rest when it finds that nobody is there to be answered.
    names = [f"{number}-{'long' * 100}" for number in range(100)]

    client = Client(eyes.urls, TTL)
    for name in names:
        await client.lock(name).acquire()
    assert await soon(lambda: len(eyes.keys()) == 3 * len(names))
    masters(3).pause()
    closing = asyncio.ensure_future(client.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.1, masters(3).resume)
    for _ in range(times):  # the end of asyncio.run cancels once more
        closing.cancel()
        await asyncio.sleep(0.01)
    await asyncio.wait([closing])
    assert closing.cancelled()
    masters(3).resume()  # if it did not wait for that
    await soon(lambda: not eyes.keys(), AT_ONCE_S)
    assert eyes.keys() == [], "locked for a whole ttl"


@pytest.fixture
def dead() -> Iterator[tuple[str, int]]:
    """An address that answers no SYN: the backlog of its socket is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        time.sleep(0.05)
        yield listening.getsockname()
        for one in waiting:
            one.close()


@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
def test_of_two_addresses_the_second_is_tried_if_the_first_is_dead(
    run: Run, eyes: Eyes, monkeypatch: pytest.MonkeyPatch, dead: tuple[str, int], blocking: bool
) -> None:
    look_up, where = socket.getaddrinfo, ("127.0.0.1", int(eyes.urls[0].rpartition(":")[2]))

    def both(host: Any, *args: Any, **options: Any) -> Any:
        if host != "both.test" or options.get("flags", 0) & socket.AI_NUMERICHOST:
            return look_up(host, *args, **options)
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        return [(*kind, address) for address in (dead, where)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    url = eyes.urls[0].replace("127.0.0.1", "both.test")

    async def main() -> None:
        async with Client([url], 2.0) as client, client.lock("x"):
            pass

    began = time.monotonic()
    if blocking:
        with rlock.Client([url], 2.0) as client, client.lock("x"):
            pass
    else:
        run(main())
    assert time.monotonic() - began < 2.0
