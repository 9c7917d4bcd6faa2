"""An acquire that is cancelled leaves nothing behind, at whatever suspension: all, one after another."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from rlock.asyncio import Client

from .stepping import TTL, Cut, Eyes, ended, free_at_once, nothing_left, quiet, soon

#: Fair or not, and cancelled while it waits or when what it waited for has come.
WAYS = tuple(itertools.product((False, True), (False, True)))


class Cast:
    """Who plays: the victim's client, that of a holder, that of who comes after. All have connections."""

    def __init__(self, eyes: Eyes, victim: Client, other: Client, rival: Client) -> None:
        self.eyes, self.victim, self.other, self.rival = eyes, victim, other, rival
        #: The acquire that is cancelled; set while it is under way.
        self.task: asyncio.Task[bool] | None = None

    async def waits(self, name: str, places: int) -> None:
        """Until so many stand in the queue, or the victim is gone."""
        await soon(lambda: self._places(name) >= places or self._gone())
        await asyncio.sleep(0.003)  # asleep, by now

    def _places(self, name: str) -> int:
        # In default mode a second task of a client stands in a line of its process.
        line = self.victim._engine()._local_queue.length(name)
        return line + self.eyes.queued(name)

    def _gone(self) -> bool:
        return self.task is not None and self.task.done()


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
async def free(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def held_by_another_client(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    async with _holder(cast, cast.other, name, fair):
        yield


@asynccontextmanager
async def held_by_another_task(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    async with _holder(cast, cast.victim, name, fair):
        yield


@asynccontextmanager
async def behind_another_waiter(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    async def wait() -> None:
        async with cast.victim.lock(name, fair=fair):
            pass

    async with _holder(cast, cast.other, name, fair, places=2):
        first = asyncio.ensure_future(wait())
        await soon(lambda: cast.eyes.queued(name) == 1)
        yield
        await first


@asynccontextmanager
async def split_votes(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    for i, one in enumerate(cast.eyes.raws[:2]):
        one.hset(name, f"somebody:{i:032x}", 1)
        one.pexpire(name, 25)
    yield
    await soon(lambda: not any(one.exists(name) for one in cast.eyes.raws[:2]))


@asynccontextmanager
async def with_broken_connections(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    cast.eyes.cut_connections()
    yield


@asynccontextmanager
async def _holder(
    cast: Cast, client: Client, name: str, fair: bool, *, places: int = 1
) -> AsyncIterator[None]:
    """Held until so many wait, or the victim is gone; then handed over."""
    taken = asyncio.Event()

    async def hold() -> None:
        async with client.lock(name, fair=fair):
            taken.set()
            await cast.waits(name, places)

    holder = asyncio.ensure_future(hold())
    await taken.wait()
    yield
    await holder


async def enumerate_all(cast: Cast, scene: Scene, *, fair: bool, late: bool) -> int:
    """Cancel at each suspension; how many there were."""
    for at in itertools.count(1):
        assert at < 60, "never ends"
        name = f"{scene.__name__}-{fair}-{late}-{at}"
        work = Cut(cast.victim.lock(name, fair=fair).acquire(), at, late=late)
        cast.task = None
        async with scene(cast, name, fair):
            cast.task = task = asyncio.ensure_future(_acquire_and_release(cast.victim, name, work))
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
    (free, 1),
    (held_by_another_client, 4),
    (held_by_another_task, 3),
    (behind_another_waiter, 1),
    (with_broken_connections, 1),
    (split_votes, 3),
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


def test_also_at_the_first_use_of_a_client(eyes: Eyes) -> None:
    async def main() -> None:
        async with Client(eyes.urls, TTL) as rival:
            for late in (False, True):
                for at in itertools.count(1):
                    async with Client(eyes.urls, TTL) as client:
                        work = Cut(client.lock("x").acquire(), at, late=late)
                        if await ended(work):
                            assert at > 1
                            break
                        await free_at_once(rival, "x")
                        await nothing_left(eyes, client)
                        # What the cancelled one has begun to connect is of use to the next one.
                        async with client.lock("x"):
                            pass
            await nothing_left(eyes, rival)
            await quiet(eyes)

    asyncio.run(main())
