"""Cancel an operation of rlock.asyncio at one instant, and look for what is left of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import rlock
import rlock.asyncio
from rlock.testing import MemoryMasters

from .operations import OF_TASKS
from .scene import NAME, Scene, left
from .turns import TURN_S, Instant, run

if TYPE_CHECKING:
    from .__main__ import Row

#: How long one run may take, and an acquire behind the operation: less than the second after which masters
#: take back a lock that they have handed to a waiter that is gone.
LIMIT_S, SOON_S = 20.0, 0.9


def cancel(row: Row, at: int) -> tuple[Instant, list[str]]:
    """Run the operation once; what is wrong behind it."""
    instant = Instant(at, row.work)
    return instant, run(_scene(row, instant), instant, LIMIT_S)


async def _scene(row: Row, instant: Instant) -> list[str]:
    masters, ends = MemoryMasters(row.masters), asyncio.Event()
    scene = Scene(masters, tasks=True, beside=row.beside)
    for client in (scene.client, scene.other):
        client._engine().context.random.seed(instant.at)  # a failure comes again
        async with client.lock("warm"):
            pass
    busy = asyncio.create_task(scene.busy(ends), name="busy") if row.beside else None
    await asyncio.create_task(_victim(row, scene, instant), name="victim")
    for client, who in (scene.other, "another client"), (scene.client, "another task"):
        if not client._closed:
            await asyncio.create_task(_takes(scene, client, who))
    ends.set()
    if busy is not None:
        await busy
    for _ in range(round(SOON_S / TURN_S)):
        if not (found := left(masters) + [*notes(scene.client), *notes(scene.other)]):
            break
        await asyncio.sleep(TURN_S)
    scene.wrong += [f"left behind: {found}"] * bool(found) + scene.refusals
    for client in (scene.client, scene.other):
        await client.close()
    for _ in range(3):  # the turns in which connections end, and cancelled tasks
        await asyncio.sleep(0)
    return scene.wrong


async def _victim(row: Row, scene: Scene, instant: Instant) -> None:
    got: object = None
    async with OF_TASKS[row.name](scene) as operation:
        instant.task = asyncio.current_task()
        try:
            got = await operation()
            if instant.reached:
                scene.wrong.append("the cancellation is lost")
        except asyncio.CancelledError:
            pass
        except Exception as error:
            scene.wrong.append(repr(error))
        instant.task = None
        scene.wrong += scene.disagrees(1 if got is True else scene.keeps)
        if scene.keeps == 0 and scene.lock.hold_count:
            await scene.lock.release()
        if scene.keeps == 0 and scene.frees:
            await _takes(scene, scene.client, "the same task")
    await scene.ended()
    if not scene.client._closed:
        await _takes(scene, scene.client, "the same task, later,")


async def _takes(scene: Scene, client: rlock.asyncio.Client, who: str) -> None:
    for name in (NAME, "another"):
        lock = client.lock(name)
        if await lock.acquire(timeout=SOON_S):
            await lock.release()
        else:
            scene.wrong.append(f"{who} does not get {name!r}")


def notes(client: rlock.asyncio.Client) -> list[object]:
    """What a client keeps of holds and of acquires under way."""
    engine = client._here()
    if engine is None:
        return []
    under_way = engine.under_way
    kept = [under_way.acquiring, under_way.releasing, under_way.handing_over, engine._local_queue._lines]
    return [*engine.holds, *(each for each in kept if each)]
