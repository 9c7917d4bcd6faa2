"""What an event loop may do to a client: eager tasks, a block or Ctrl-C at a bad moment, a hurried end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest

from rlock._async.connection import StreamConnection
from rlock._async.runtime import Parker
from rlock.asyncio import Client
from rlock.testing import MemoryMasters

from ..servers import Fleet
from .conftest import Run
from .eyes import AT_ONCE_S, TTL, Eyes, nothing_left, soon

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
    errors: list[BaseException] = []

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

    def live() -> None:
        try:
            run(main())
        except BaseException as error:
            errors.append(error)

    # In a thread that nobody waits for at the end: a loop that waits for its own mutex does so for ever.
    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    thread.join(15)
    assert not thread.is_alive(), "dead-locked"
    assert errors == []
    assert sorted(order) == [0, 1, 2, 3]


def test_a_block_of_the_loop_between_the_answers_and_their_owners_turn_costs_no_master(
    run: Run, masters: Fleet, eyes: Eyes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wake, blocked = Parker.wake, 0

    def block() -> None:
        # The last answer comes while somebody's code blocks; the owner's turn is before it is read.
        masters[2].resume()
        time.sleep(SHORT)

    def wake_after_a_block(self: Parker) -> None:
        nonlocal blocked
        if not blocked:
            blocked += 1
            asyncio.get_running_loop().call_soon(block)
        wake(self)

    async def main() -> None:
        async with Client(eyes.urls, TTL, request_timeout=SHORT / 2) as client:
            async with client.lock("warm"):
                pass
            await nothing_left(eyes, client)
            before = _connections(eyes)
            masters[2].pause()
            monkeypatch.setattr(Parker, "wake", wake_after_a_block)
            async with client.lock("x"):
                assert blocked
                await asyncio.sleep(0.05)
            assert "no answer within" not in caplog.text
            # The same ones: none had to be made anew.
            assert _connections(eyes) == before

    caplog.set_level("INFO", "rlock")
    try:
        run(main())
    finally:
        masters[2].resume()


def _connections(eyes: Eyes) -> list[set[str]]:
    return [{str(each["id"]) for each in one.client_list()} for one in eyes.raws]


class _Interrupted(deque[Any]):
    """Ctrl-C when the reply has been taken, and what it answers has not."""

    hits = 0

    def popleft(self) -> Any:
        if not self.hits:
            self.hits += 1
            raise KeyboardInterrupt
        return super().popleft()


def test_ctrl_c_where_an_answer_is_read_leaves_no_answer_for_another_question(eyes1: Eyes) -> None:
    """In a program that catches it and runs its loop on. (uvloop itself ends the connection then.)"""
    loop = asyncio.new_event_loop()
    client = Client(eyes1.urls, TTL)
    pending = _Interrupted()

    def connection() -> StreamConnection | None:
        engine = client._engines[loop]
        return engine.masters._connections.servers[0].connection

    async def warm() -> None:
        async with client.lock("warm"):
            pass
        await nothing_left(eyes1, client)

    async def main() -> None:
        lock = client.lock("x")
        assert await lock.acquire(timeout=5)
        assert (await client.status("x")).holder
        assert await client.lock("free").locked() is False
        await lock.release()
        await nothing_left(eyes1, client)
        await client.close()

    try:
        loop.run_until_complete(warm())
        first = connection()
        assert first is not None
        assert not first.pending
        first.pending = pending
        task = loop.create_task(main())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
        assert pending.hits
        assert connection() is not first, "on that connection answers and questions are out of step"
        loop.run_until_complete(task)
    finally:
        loop.close()


@pytest.mark.parametrize(("turns", "times"), [(1, 1), (5, 3)])
def test_a_cancelled_close_waits_until_slow_masters_have_done_what_they_were_sent(
    run: Run, masters: Fleet, eyes: Eyes, turns: int, times: int
) -> None:
    # More than a server reads at once: it forgets the rest when it finds that nobody is there to be answered.
    names = [f"{number}-{'long' * 100}" for number in range(100)]

    async def main() -> None:
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

    try:
        run(main())
    finally:
        masters(3).resume()
