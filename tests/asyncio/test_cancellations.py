"""A cancellation at each suspension of calls on real connections; evidence/interrupts has all other calls."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest

import rlock
import rlock.asyncio
from rlock.asyncio import Client, RLock

from .stepping import AT_ONCE_S, TTL, Cut, Eyes, ended, free_at_once, nothing_left, quiet, soon

#: Fair or not, and cancelled while it waits or when what it waited for has come.
WAYS = tuple(itertools.product((False, True), (False, True)))


class Cast:
    """Who plays: the victim's client, that of a holder, that of who comes after. All have connections."""

    def __init__(self, eyes: Eyes, victim: Client, other: Client, rival: Client) -> None:
        self.eyes, self.victim, self.other, self.rival = eyes, victim, other, rival


Scene = Callable[[Cast, str, bool], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _cast(eyes: Eyes) -> AsyncIterator[Cast]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(eyes.urls, TTL)) for _ in range(3)]
        for client in clients:
            async with client.lock("warm"):
                pass
        yield Cast(eyes, *clients)


@asynccontextmanager
async def at_the_first_use_of_a_client(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    async with Client(cast.eyes.urls, TTL) as cast.victim:
        yield
        # The next acquire uses the connections that the cancelled one has begun.
        async with cast.victim.lock(f"{name}, next"):
            pass


@asynccontextmanager
async def with_broken_connections(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    cast.eyes.cut_connections()
    yield


async def enumerate_all(cast: Cast, scene: Scene, *, fair: bool, late: bool) -> int:
    """Cancel at each suspension; how many there were."""
    for at in itertools.count(1):
        assert at < 60, "never ends"
        name = f"{scene.__name__}-{fair}-{late}-{at}"
        async with scene(cast, name, fair):
            work = Cut(cast.victim.lock(name, fair=fair).acquire(), at, late=late)
            task = asyncio.ensure_future(_acquire_and_release(cast.victim, name, work))
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await free_at_once(cast.rival, name)
        await nothing_left(cast.eyes, cast.victim, cast.other, cast.rival)
        if not work.was_cut:
            return at - 1
    raise AssertionError


async def _acquire_and_release(client: Client, name: str, work: Cut) -> bool:
    assert await work is True
    await client.lock(name).release()
    return True


#: And how many suspensions there are at the least: a scene that never comes about must not pass.
SCENES: tuple[tuple[Scene, int], ...] = (
    (at_the_first_use_of_a_client, 1),
    (with_broken_connections, 1),
)


@pytest.mark.rule("1.4")
@pytest.mark.parametrize(("scene", "least"), SCENES, ids=[scene.__name__ for scene, _ in SCENES])
def test_a_cancellation_at_any_await_of_an_acquire_leaves_nothing(
    eyes: Eyes, scene: Scene, least: int
) -> None:
    async def main() -> None:
        async with _cast(eyes) as cast:
            for fair, late in WAYS:
                assert await enumerate_all(cast, scene, fair=fair, late=late) >= least
            await quiet(eyes)

    asyncio.run(main())


# -- what else can be cancelled: release, ``async with``, close, questions


async def _take(lock: RLock) -> bool:
    got = await lock.acquire(timeout=AT_ONCE_S)
    if got:
        await lock.release()
    return got


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
