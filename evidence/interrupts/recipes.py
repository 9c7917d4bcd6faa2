"""Operations of recipes, of holds that change hands, and of read-write locks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import rlock

from .scene import HELD_S, NAME, TURN_S, Call, Scene, call, left, within

LEASE_S = 1.5  # of a hold that changes hands


@asynccontextmanager
async def leader(scene: Scene) -> AsyncIterator[Call]:
    """Into the lead and out of it. Tasks do so also beside a rival, whose callbacks must not overlap."""
    leads: list[str] = []

    def campaign(client: Any, name: str) -> Any:
        async def started(_: int) -> None:
            if leads:
                scene.wrong.append(f"{name} leads while {leads} does")
            leads.append(name)
            await asyncio.sleep(TURN_S)

        async def stopped() -> None:
            await asyncio.sleep(TURN_S)
            leads.remove(name)

        return client.leader(NAME, *((started, stopped) if scene.tasks else ()))

    ours = campaign(scene.client, "ours")

    async def work() -> None:
        async with within(ours):
            await call(ours.wait, 2.0)

    if not (scene.tasks and scene.beside):
        yield work
        # Ctrl-C came before the first line of __exit__, as with anything that `with` leaves.
        if not (scene.tasks or ours._end):
            ours.__exit__()
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


@asynccontextmanager
async def semaphore(scene: Scene, *, full: bool = False) -> AsyncIterator[Call]:
    """``full``: other owners have its permits for a moment."""
    permits, taken = scene.client.semaphore(NAME, permits=2), scene.event()

    async def hold() -> None:
        here, there = (client.semaphore(NAME, permits=2) for client in (scene.client, scene.other))
        async with within(there), within(here):
            taken.set()
            await scene.sleep(HELD_S)

    async def work() -> None:
        async with within(permits):
            if permits.permit is None:
                scene.wrong.append("a block runs without its permit")
            await scene.sleep(0)

    if full:
        scene.start(hold, "holder")
        await scene.set(taken)
    yield work
    while permits.permit is not None and not scene.tasks:  # after Ctrl-C
        permits.release()


@asynccontextmanager
async def several(scene: Scene, *, contended: bool = False) -> AsyncIterator[Call]:
    names = scene.client.locks([NAME, "y", "z"])

    async def work() -> None:
        async with within(names):
            scene.owns(1)
            await scene.sleep(0)

    if contended:  # it waits for the first name, and then, with it, for the last
        await scene.holder(scene.other)
        await scene.holder(scene.other, 4 * HELD_S, "z")
    yield work
    for lock in map(scene.client.lock, () if scene.tasks else names.names):  # after Ctrl-C
        if lock.hold_count:
            lock.release()


@asynccontextmanager
async def condition(scene: Scene, *, reader: bool = False) -> AsyncIterator[Call]:
    if reader:
        scene.lock = scene.client.read_write_lock(NAME).reader
    waiting = threading.Condition(scene.lock)

    def work() -> None:
        with waiting:
            waiting.wait(0.005)

    yield work


@asynccontextmanager
async def detach(scene: Scene) -> AsyncIterator[Call]:
    """Short: after Ctrl-C behind the last line of rlock nobody has the handle."""
    await call(scene.lock.acquire)
    yield partial(scene.lock.detach, 0.1)


@asynccontextmanager
async def adopt(scene: Scene) -> AsyncIterator[Call]:
    """Behind it the caller has the hold, or the handle is good, or nobody has the lock.

    A master that was told late that it is given back may keep it for the handle, until the lease ends.
    """
    scene.lock.acquire()
    handle, reason = scene.lock.detach(LEASE_S), ""
    yield lambda: scene.client.adopt(handle, ttl=LEASE_S) is not None
    for _ in range(100):  # an undo may need a new connection
        if scene.lock.hold_count:
            break
        try:
            scene.other.adopt(handle, ttl=LEASE_S).release()
            break
        except rlock.RLockError as error:
            reason = str(error)
        if "nobody has the lock" in reason:
            break
        time.sleep(0.001)
    else:
        raise AssertionError(f"an owner whom nobody knows keeps it: {reason}")
    await scene.until(lambda: scene.lock.hold_count or not left(scene.masters), LEASE_S)


@asynccontextmanager
async def reader(
    scene: Scene, *, releases: bool = False, inside: bool = False, behind: bool = False
) -> AsyncIterator[Call]:
    """``inside``: the writer has it as well. ``behind``: another owner is the writer."""
    lock = scene.client.read_write_lock(NAME)
    if behind:
        await scene.holder(scene.other)
    if inside:
        await call(lock.writer.acquire)
    scene.lock = lock.reader
    if releases:
        await call(lock.reader.acquire)
    yield lock.reader.release if releases else lock.reader.acquire


@asynccontextmanager
async def write(scene: Scene, *, reads: bool, reader: bool = False) -> AsyncIterator[Call]:
    """The release of a writer while readers wait, of its own client and of another.

    ``reads``: it reads on. ``reader``: that is the lock under test.
    """
    lock = scene.client.read_write_lock(NAME)
    await call(lock.writer.acquire)
    if reads:
        await call(lock.reader.acquire)
    for client in (scene.client, scene.other):
        await scene.waiter(client, shared=True)
    scene.lock, scene.keeps = lock.reader if reader else lock.writer, int(reads)
    yield lock.writer.release
    if scene.tasks:  # a writer whose release was interrupted is released later
        await scene.ended()
    if reads and scene.tasks:
        await lock.reader.release()
