"""The public operations. Each context manager prepares, yields the call under test, and tidies up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import rlock
from rlock._async import runtime as for_tasks
from rlock._sync import runtime as for_threads

from .recipes import adopt, condition, detach, leader, reader, semaphore, several, write
from .scene import HELD_S, NAME, TURN_S, Call, Operation, Scene, call, within


@asynccontextmanager
async def acquire(scene: Scene) -> AsyncIterator[Call]:
    yield scene.lock.acquire


@asynccontextmanager
async def first_use(scene: Scene) -> AsyncIterator[Call]:
    """The first use of a client. It connects, which takes some turns of the event loop."""
    await call(scene.client.close)
    for master in scene.masters if scene.tasks else ():
        _connects_slowly(master)
    scene.client = scene.connected()
    scene.lock = scene.client.lock(NAME)
    yield scene.lock.acquire


def _connects_slowly(master: Any) -> None:
    genuine = master.connect

    def slowly(options: Any) -> Any:
        yield from asyncio.sleep(TURN_S).__await__()
        connection = yield from genuine(options)
        try:
            yield from asyncio.sleep(TURN_S).__await__()
        except BaseException:
            connection.close()
            raise
        return connection

    master.connect = slowly


@asynccontextmanager
async def reconnect(scene: Scene, *, held: bool = False) -> AsyncIterator[Call]:
    async with first_use(scene):
        await call(scene.lock.acquire)
    if not held:
        await call(scene.lock.release)
    for master in scene.masters:
        master.down()
        master.up()
    yield scene.lock.release if held else scene.lock.acquire


@asynccontextmanager
async def busy(scene: Scene) -> AsyncIterator[Call]:
    scene.frees = False
    async with within(scene.other.lock(NAME)):
        yield partial(scene.lock.acquire, blocking=False)


@asynccontextmanager
async def release(scene: Scene) -> AsyncIterator[Call]:
    await call(scene.lock.acquire)
    yield scene.lock.release


async def _block(scene: Scene, count: int) -> None:
    async with within(scene.lock):
        scene.owns(count)
        await scene.sleep(0)


@asynccontextmanager
async def block(scene: Scene) -> AsyncIterator[Call]:
    yield partial(_block, scene, 1)


@asynccontextmanager
async def nested(scene: Scene) -> AsyncIterator[Call]:
    async with within(scene.lock):
        scene.keeps = 1
        yield partial(_block, scene, 2)
        if scene.lock.hold_count == 2:  # Ctrl-C between the acquire and the block, as with any lock
            await call(scene.lock.release)


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
    """Another owner has the lock. ``here``: of this client. ``behind``: behind one that waits."""
    scene.lock = scene.client.lock(NAME, fair=fair)
    await scene.holder(scene.client if here else scene.other, held_s)
    if behind:
        await scene.waiter(scene.client)
    yield partial(scene.lock.acquire, timeout=timeout)


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
    await call(scene.lock.acquire)
    await scene.waiter(scene.client if here else scene.other)
    yield scene.lock.release


@asynccontextmanager
async def renew(scene: Scene) -> AsyncIterator[Call]:
    await call(scene.lock.acquire)
    scene.keeps, engine = 1, scene.client._engine()
    run: Any = for_tasks.run if scene.tasks else for_threads.run
    yield lambda: run(engine.watchdog._renew_due(list(engine.holds)))
    scene.lock.check()
    await call(scene.lock.release)


@asynccontextmanager
async def ask(scene: Scene) -> AsyncIterator[Call]:
    lock, client = scene.lock, scene.client

    async def work() -> None:
        await call(lock.locked)
        _ = lock.is_owned(), lock.fencing_token, lock.lost.is_set()
        for question in (partial(client.status, NAME), client.init, partial(client.evict, "another")):
            if scene.tasks:
                await call(question)

    async with within(lock):
        scene.keeps = 1
        yield work


@asynccontextmanager
async def lost(scene: Scene) -> AsyncIterator[Call]:
    async with within(scene.lock):
        scene.keeps = 1
        yield partial(scene.lock.lost.wait, 0.002)


@asynccontextmanager
async def close(scene: Scene) -> AsyncIterator[Call]:
    """With a hold of this owner, one of another, and two acquires under way."""
    ends, held = scene.event(), scene.event()

    async def hold() -> None:
        lock = scene.client.lock("z")
        await call(lock.acquire)
        held.set()
        await scene.set(ends)
        with suppress(rlock.LeaseLostError):
            await call(lock.release)

    async with within(scene.other.lock("y")):
        await call(scene.lock.acquire)
        scene.keeps = 1
        scene.start(hold, "holder")
        await scene.set(held)
        for name in (NAME, "y"):
            await scene.waiter(scene.client, name)
        yield scene.client.close
        if not scene.tasks:  # after Ctrl-C in this thread any other one closes the rest
            closer = threading.Thread(target=scene.client.close)
            closer.start()
            closer.join()
        ends.set()
        await scene.ended()
        if len(closed := [each for each in scene.refusals if "closed" in each]) == 2:
            scene.refusals.clear()
        else:
            scene.wrong.append(f"two waiters of a closed client: {closed}")
    with suppress(rlock.LeaseLostError):
        await call(scene.lock.release)


#: Of threads and of tasks.
BOTH: dict[str, Operation] = {
    "acquire": acquire,
    "acquire, first use": first_use,
    "try a busy lock": busy,
    "release": release,
    "with": block,
    "nested with": nested,
    "contended acquire": contended,
    "hand-over to it": partial(contended, here=True),
    "acquire, time over": partial(contended, held_s=0.03, timeout=0.01),
    "fair acquire": partial(contended, fair=True),
    "renewal": renew,
    "questions": ask,
    "close": close,
    "leader": leader,
    "semaphore": semaphore,
    "several names": several,
    "release a reader": partial(reader, releases=True),
    "release to readers": partial(write, reads=False),
}
OF_THREADS: dict[str, Operation] = {
    **BOTH,
    "release to a thread": partial(hand_over, here=True),
    "Condition.wait": condition,
    "detach": detach,
    "adopt": adopt,
    "acquire a reader": reader,
    "acquire, in the writer": partial(reader, inside=True),
    "acquire, after a writer": partial(reader, behind=True),
    "release, in the writer": partial(reader, releases=True, inside=True),
    "release, and read on": partial(write, reads=True),
    "end of its writer": partial(write, reads=True, reader=True),
    "Condition of a reader": partial(condition, reader=True),
}
OF_TASKS: dict[str, Operation] = {
    **BOTH,
    "acquire, reconnect": reconnect,
    "release, reconnect": partial(reconnect, held=True),
    "behind a waiter": partial(contended, behind=True),
    "fair, behind a waiter": partial(contended, behind=True, fair=True),
    "split votes": split_votes,
    "release to a task": partial(hand_over, here=True),
    "release to a client": partial(hand_over, here=False),
    "lost.wait": lost,
    "full semaphore": partial(semaphore, full=True),
    "acquire a reader": partial(reader, behind=True),
    "release, and read on": partial(write, reads=True, reader=True),
    "several, contended": partial(several, contended=True),
}

#: The operations that acquire, or release, once; the others do both, or none.
ACQUIRES = {"adopt", "hand-over to it", "try a busy lock", *(one for one in OF_THREADS if "acquire" in one)}
RELEASES = {"detach", *(one for one in OF_THREADS if "release" in one)}


def change(name: str, result: object, error: BaseException | None) -> int:
    """By how much an operation that ended so has changed the hold count of its lock."""
    if name in ACQUIRES:
        return int(result is True)
    not_held = type(error) in (rlock.NotHeldError, RuntimeError)  # of Condition.wait
    if name in RELEASES:
        return 0 if not_held else -1
    return int(not_held)  # a `with` block whose release came too late
