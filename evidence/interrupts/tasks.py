"""The operations of rlock.asyncio: each context manager prepares, yields the call under test, tidies up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any

import rlock
import rlock.asyncio
from rlock._async.runtime import run
from rlock.recipes.leader import AsyncLeader
from rlock.testing import MemoryMasters

from .operations import HELD_S, NAME
from .turns import TURN_S

Call = Callable[[], Awaitable[object]]
Operation = Callable[["Scene"], AbstractAsyncContextManager[Call]]


class Scene:
    """The client under test, another client of the same masters, and tasks."""

    def __init__(self, masters: MemoryMasters, *, beside: bool) -> None:
        self.masters, self.beside = masters, beside
        self.client, self.other = (rlock.asyncio.Client([*masters], ttl=8.0) for _ in range(2))
        self.lock = self.client.lock(NAME)
        self.keeps = 0  # acquires of `lock` behind the operation, if it does not return True
        self.frees = True  # whoever else has the lock gives it back soon
        self.wrong: list[str] = []

    async def holder(self, client: rlock.asyncio.Client, seconds: float = HELD_S) -> asyncio.Task[None]:
        """A task that has the lock now, and keeps it for a time."""
        taken = asyncio.Event()

        async def hold() -> None:
            async with client.lock(NAME):
                taken.set()
                await asyncio.sleep(seconds)

        task = asyncio.create_task(hold(), name="holder")
        await taken.wait()
        return task

    async def waiter(
        self, client: rlock.asyncio.Client, name: str = NAME, *, shared: bool = False
    ) -> asyncio.Task[str]:
        """A task that waits for the lock: "", or the error that it gets."""

        async def wait() -> str:
            try:
                async with client.read_write_lock(name)[0 if shared else 1]:
                    return ""
            except rlock.RLockError as error:
                return repr(error)

        task = asyncio.create_task(wait(), name="waiter")
        while not client._engine().notifications.next_waiter(name):
            await asyncio.sleep(TURN_S)
        return task


def simple(work: Callable[[Scene], Awaitable[object]]) -> Operation:
    """An operation that needs no preparation."""

    @asynccontextmanager
    async def operation(scene: Scene) -> AsyncIterator[Call]:
        yield lambda: work(scene)

    return operation


async def block(scene: Scene) -> None:
    async with scene.lock:
        _owned(scene, 1)
        await asyncio.sleep(0)


def _owned(scene: Scene, count: int) -> None:
    if not scene.lock.is_owned() or scene.lock.hold_count != count:
        scene.wrong.append("a block runs without the lock")


@asynccontextmanager
async def first_use(scene: Scene) -> AsyncIterator[Call]:
    """The first use of a client, which connects: to a memory master in some turns."""
    for master in scene.masters:
        genuine = master.connect

        def slowly(options: Any, genuine: Any = genuine) -> Any:
            yield from asyncio.sleep(TURN_S).__await__()
            connection = yield from genuine(options)
            try:
                yield from asyncio.sleep(TURN_S).__await__()
            except BaseException:
                connection.close()
                raise
            return connection

        master.connect = slowly  # type: ignore[method-assign, assignment]
    await scene.client.close()
    scene.client = rlock.asyncio.Client([*scene.masters], ttl=8.0)
    scene.lock = scene.client.lock(NAME)
    yield scene.lock.acquire


@asynccontextmanager
async def reconnect(scene: Scene, *, held: bool = False) -> AsyncIterator[Call]:
    async with first_use(scene):
        await scene.lock.acquire()
    if not held:
        await scene.lock.release()
    for master in scene.masters:
        master.down()
        master.up()
    yield scene.lock.release if held else scene.lock.acquire


@asynccontextmanager
async def busy(scene: Scene) -> AsyncIterator[Call]:
    scene.frees = False
    async with scene.other.lock(NAME):
        yield partial(scene.lock.acquire, blocking=False)


@asynccontextmanager
async def release(scene: Scene) -> AsyncIterator[Call]:
    await scene.lock.acquire()
    yield scene.lock.release


@asynccontextmanager
async def nested(scene: Scene) -> AsyncIterator[Call]:
    async with scene.lock:
        scene.keeps = 1

        async def work() -> None:
            async with scene.lock:
                _owned(scene, 2)
                await asyncio.sleep(0)

        yield work


@asynccontextmanager
async def contended(
    scene: Scene,
    *,
    here: bool = False,
    fair: bool = False,
    behind: bool = False,
    held_s: float = HELD_S,
    timeout: float = -1,
) -> AsyncIterator[Call]:
    """Another one has the lock, and another task of this client may wait for it."""
    scene.lock = scene.client.lock(NAME, fair=fair)
    holder = await scene.holder(scene.client if here else scene.other, held_s)
    waiter = await scene.waiter(scene.client) if behind else None
    yield partial(scene.lock.acquire, timeout=timeout)
    await holder
    if waiter is not None:
        scene.wrong += [await waiter] * bool(await waiter)


@asynccontextmanager
async def split_votes(scene: Scene) -> AsyncIterator[Call]:
    """All masters but one have a vote for some dead contender, which ends soon."""
    for i, master in enumerate([*scene.masters][:-1]):
        with master.mutex:
            master._keys.look(NAME)
            master._keys._set(NAME, f"somebody:{i:032x}", "1")
            master._keys._pexpire(NAME, "25")
    yield scene.lock.acquire


@asynccontextmanager
async def hand_over(scene: Scene, *, here: bool) -> AsyncIterator[Call]:
    """A release while a task waits."""
    await scene.lock.acquire()
    waiter = await scene.waiter(scene.client if here else scene.other)
    yield scene.lock.release
    scene.wrong += [await waiter] * bool(await waiter)


@asynccontextmanager
async def renew(scene: Scene) -> AsyncIterator[Call]:
    await scene.lock.acquire()
    scene.keeps, engine = 1, scene.client._engine()

    async def look_after() -> None:
        await run(engine.watchdog._look_after(list(engine.holds)))

    yield look_after
    scene.lock.check()
    await scene.lock.release()


@asynccontextmanager
async def ask(scene: Scene) -> AsyncIterator[Call]:
    await scene.lock.acquire()
    scene.keeps = 1

    async def work() -> None:
        await scene.lock.locked()
        await scene.client.status(NAME)
        await scene.client.init()
        await scene.client.evict("another")

    yield work
    await scene.lock.release()


@asynccontextmanager
async def lost(scene: Scene) -> AsyncIterator[Call]:
    await scene.lock.acquire()
    scene.keeps = 1
    yield partial(scene.lock.lost.wait, 0.002)
    await scene.lock.release()


@asynccontextmanager
async def close(scene: Scene) -> AsyncIterator[Call]:
    """With a hold of this task, one of another, and two acquires under way."""
    ends, held = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        await scene.client.lock("z").acquire()
        held.set()
        await ends.wait()
        with suppress(rlock.LeaseLostError):
            await scene.client.lock("z").release()

    async with scene.other.lock("y"):
        await scene.lock.acquire()
        scene.keeps = 1
        holder = asyncio.create_task(hold(), name="holder")
        await held.wait()
        waiters = [await scene.waiter(scene.client, name) for name in (NAME, "y")]
        yield scene.client.close
        scene.wrong += [
            f"a waiter of a closed client: {await each}" for each in waiters if "closed" not in await each
        ]
        ends.set()
        await holder
    with suppress(rlock.LeaseLostError):
        await scene.lock.release()


@asynccontextmanager
async def leader(scene: Scene) -> AsyncIterator[Call]:
    """Into the lead and out of it; beside a rival, whose callbacks must not overlap."""
    leads: list[str] = []

    def campaign(client: rlock.asyncio.Client, name: str) -> AsyncLeader:
        async def started(_: int) -> None:
            if leads:
                scene.wrong.append(f"{name} leads while {leads} does")
            leads.append(name)
            await asyncio.sleep(TURN_S)

        async def stopped() -> None:
            await asyncio.sleep(TURN_S)
            leads.remove(name)

        return client.leader(NAME, started, stopped)

    ours = campaign(scene.client, "ours")

    async def work() -> None:
        async with ours:
            await ours.wait(2.0)

    if not scene.beside:
        yield work
        return
    scene.frees = False
    async with campaign(scene.other, "the rival") as rival:
        await rival.wait(1.0)
        rival_resigns = asyncio.get_running_loop().call_later(HELD_S, rival.resign)
        yield work
        rival_resigns.cancel()
        await rival.wait(1.0)
        if not rival.is_leader():
            scene.wrong.append("the rival does not lead behind it")


async def semaphore(scene: Scene) -> None:
    async with scene.client.semaphore(NAME, permits=2) as permits:
        if permits.permit is None:
            scene.wrong.append("a block runs without its permit")
        await asyncio.sleep(0)


@asynccontextmanager
async def full_semaphore(scene: Scene) -> AsyncIterator[Call]:
    taken = asyncio.Event()

    async def hold() -> None:
        async with scene.other.semaphore(NAME, permits=2), scene.client.semaphore(NAME, permits=2):
            taken.set()
            await asyncio.sleep(HELD_S)

    holder = asyncio.create_task(hold(), name="holder")
    await taken.wait()
    yield partial(semaphore, scene)
    await holder


@asynccontextmanager
async def reader(scene: Scene, *, releases: bool = False) -> AsyncIterator[Call]:
    scene.lock = scene.client.read_write_lock(NAME).reader
    if releases:
        await scene.lock.acquire()
        yield scene.lock.release
    else:
        holder = await scene.holder(scene.other)
        yield scene.lock.acquire
        await holder


@asynccontextmanager
async def write(scene: Scene, *, reads: bool) -> AsyncIterator[Call]:
    """The release of a writer while readers wait. ``reads``: it reads on."""
    lock = scene.client.read_write_lock(NAME)
    await lock.writer.acquire()
    if reads:
        await lock.reader.acquire()
        scene.lock, scene.keeps = lock.reader, 1
    waiters = [await scene.waiter(client, shared=True) for client in (scene.client, scene.other)]
    yield lock.writer.release
    for waiter in waiters:
        scene.wrong += [await waiter] * bool(await waiter)
    if reads:
        await lock.reader.release()


async def several(scene: Scene) -> None:
    async with scene.client.locks([NAME, "y", "z"]):
        _owned(scene, 1)
        await asyncio.sleep(0)


@asynccontextmanager
async def several_contended(scene: Scene) -> AsyncIterator[Call]:
    holder = await scene.holder(scene.other)
    yield partial(several, scene)
    await holder


OPERATIONS: dict[str, Operation] = {
    "acquire": simple(lambda scene: scene.lock.acquire()),
    "acquire, first use": first_use,
    "acquire, reconnect": reconnect,
    "try a busy lock": busy,
    "release": release,
    "release, reconnect": partial(reconnect, held=True),
    "with": simple(block),
    "nested with": nested,
    "contended acquire": contended,
    "hand-over to it": partial(contended, here=True),
    "behind a waiter": partial(contended, behind=True),
    "fair acquire": partial(contended, fair=True),
    "fair, behind a waiter": partial(contended, behind=True, fair=True),
    "split votes": split_votes,
    "acquire, time over": partial(contended, held_s=0.03, timeout=0.01),
    "release to a task": partial(hand_over, here=True),
    "release to a client": partial(hand_over, here=False),
    "renewal": renew,
    "questions": ask,
    "lost.wait": lost,
    "close": close,
    "leader": leader,
    "semaphore": simple(semaphore),
    "full semaphore": full_semaphore,
    "acquire a reader": reader,
    "release a reader": partial(reader, releases=True),
    "release to readers": partial(write, reads=False),
    "release, and read on": partial(write, reads=True),
    "several names": simple(several),
    "several, contended": several_contended,
}
