"""Whatever is cancelled leaves nothing behind, at whatever suspension: all, one after another."""

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
async def at_the_first_use_of_a_client(cast: Cast, name: str, fair: bool) -> AsyncIterator[None]:
    async with Client(cast.eyes.urls, TTL) as cast.victim:
        yield
        # The next acquire uses the connections that the cancelled one has begun.
        async with cast.victim.lock(f"{name}, next"):
            pass


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
        cast.task = None
        async with scene(cast, name, fair):
            work = Cut(cast.victim.lock(name, fair=fair).acquire(), at, late=late)
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
    (at_the_first_use_of_a_client, 1),
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


# -- what else can be cancelled: release, ``async with``, close, questions


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
