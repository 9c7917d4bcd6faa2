"""What else can be cancelled: release, ``async with``, close, questions. At each suspension."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

import rlock
import rlock.asyncio
from rlock.asyncio import Client, RLock

from .stepping import AT_ONCE_S, TTL, Cut, Eyes, ended, free_at_once, nothing_left, quiet, soon


async def _take(lock: RLock) -> bool:
    got = await lock.acquire(timeout=AT_ONCE_S)
    if got:
        await lock.release()
    return got


WAITING = ["nobody", "a task of the same client", "another client", "nobody, over broken connections"]


@pytest.mark.parametrize("waiting", WAITING)
def test_a_release_that_is_cancelled_at_any_await_has_released(eyes: Eyes, waiting: str) -> None:
    async def main() -> None:
        async with Client(eyes.urls, TTL) as client, Client(eyes.urls, TTL) as other:
            await _take(other.lock("warm"))
            for fair, late in itertools.product((False, True), (False, True)):
                for at in itertools.count(1):
                    name = f"{fair}-{late}-{at}"
                    lock = client.lock(name, fair=fair)
                    await lock.acquire()
                    waiter = None
                    if waiting == WAITING[3]:
                        eyes.cut_connections()
                    elif waiting != "nobody":
                        place = client if waiting == WAITING[1] else other
                        waiter = asyncio.ensure_future(_take(place.lock(name, fair=fair)))
                        await soon(partial(eyes.queued, name))
                        await asyncio.sleep(0.003)
                    work = Cut(lock.release(), at, late=late)
                    with contextlib.suppress(asyncio.CancelledError):
                        await work
                    assert lock.hold_count == 0
                    if waiter is not None:
                        assert await waiter, "the waiter was not woken"
                    await free_at_once(other, name)
                    await nothing_left(eyes, client, other)
                    if not work.was_cut:
                        assert at > 1
                        break
            await quiet(eyes)

    asyncio.run(main())


def test_a_nested_acquire_and_its_release_suspend_nowhere(eyes1: Eyes) -> None:
    async def main() -> None:
        async with Client(eyes1.urls, TTL) as client:
            lock = client.lock("x")
            async with lock:
                for fair in (False, True):
                    nested = Cut(client.lock("x", fair=fair).acquire(), 1)
                    assert await nested is True
                    assert lock.hold_count == 2
                    given_back = Cut(lock.release(), 1)
                    await given_back
                    assert nested.suspensions == given_back.suspensions == 0

    asyncio.run(main())


@pytest.mark.parametrize("fair", [False, True])
def test_a_block_that_is_cancelled_at_any_await_never_runs_without_the_lock_and_leaves_it(
    eyes: Eyes, fair: bool
) -> None:
    async def block(lock: RLock, held: list[bool]) -> None:
        async with lock:
            held.append(lock.is_owned())
            await asyncio.sleep(0)
            async with lock:
                held.append(lock.hold_count == 2)
                await asyncio.sleep(0)
            held.append(lock.hold_count == 1)

    async def main() -> None:
        async with Client(eyes.urls, TTL) as client, Client(eyes.urls, TTL) as other:
            await _take(other.lock("warm"))
            await _take(client.lock("warm"))
            for late in (False, True):
                for at in itertools.count(1):
                    held: list[bool] = []
                    name = f"{late}-{at}"
                    if await ended(Cut(block(client.lock(name, fair=fair), held), at, late=late)):
                        assert held == [True] * 3
                        assert at > 4
                        break
                    assert all(held)
                    await free_at_once(other, name)
                    await nothing_left(eyes, client, other)
            await quiet(eyes)

    asyncio.run(main())


def test_a_close_that_is_cancelled_at_any_await_has_closed_released_and_taken_back(eyes: Eyes) -> None:
    async def wait(lock: RLock) -> str:
        try:
            await lock.acquire()
        except rlock.RLockError as error:
            return type(error).__name__
        return "got it"

    async def main() -> None:
        async with Client(eyes.urls, TTL) as other:
            for late in (False, True):
                for at in itertools.count(1):
                    client = Client(eyes.urls, TTL)
                    held, foreign = f"held-{late}-{at}", f"foreign-{late}-{at}"
                    async with other.lock(foreign):
                        await client.lock(held).acquire()
                        waiters = [asyncio.ensure_future(wait(client.lock(name))) for name in (held, foreign)]
                        await soon(partial(eyes.queued, held))
                        await soon(partial(eyes.queued, foreign))
                        finished = await ended(Cut(client.close(), at, late=late))
                        assert await asyncio.wait_for(asyncio.gather(*waiters), 2) == ["RLockError"] * 2
                        with pytest.raises(rlock.RLockError, match="closed"):
                            await client.lock(held).acquire()
                    for name in (held, foreign):
                        await free_at_once(other, name)
                    await client.close()
                    await nothing_left(eyes, other)
                    if finished:
                        assert at > 2
                        break
            await quiet(eyes)

    asyncio.run(main())


QUESTIONS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "status": lambda client: client.status("x"),
    "locked": lambda client: client.lock("x").locked(),
    "statistics": lambda client: client.lock("x").statistics(),
    "evict": lambda client: client.evict("y"),
    "init": lambda client: client.init(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_is_cancelled_at_any_await_leaves_a_client_that_works(
    eyes: Eyes, question: str
) -> None:
    async def ask(client: Client) -> object:
        return await QUESTIONS[question](client)

    async def main() -> None:
        async with Client(eyes.urls, TTL) as other, other.lock("x"):
            for late in (False, True):
                for at in itertools.count(1):
                    async with Client(eyes.urls, TTL) as client:
                        if await ended(Cut(ask(client), at, late=late)):
                            assert at > 1
                            break
                        assert await client.lock("x").locked() is True
                        assert len((await client.status("x")).masters) == 3
                        assert await _take(client.lock("z"))

    asyncio.run(main())
