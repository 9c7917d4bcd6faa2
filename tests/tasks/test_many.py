"""Many tasks: thousands of cancelled acquires, and a thousand tasks that wait in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import random

from rlock.asyncio import Client, RLock

from .stepping import TTL, Eyes, free_at_once, nothing_left, quiet

LOCKS = 10


async def _acquire(lock: RLock) -> bool:
    """Give it back unless it was cancelled; whether it was had."""
    await lock.acquire()
    await lock.release()
    return True


async def _timed(lock: RLock, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):  # type: ignore[attr-defined, unused-ignore]
            return await _acquire(lock)
    except asyncio.TimeoutError:
        return False


async def _hold_now_and_then(lock: RLock) -> None:
    while True:
        async with lock:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0)


async def _flood(clients: list[Client], count: int, chance: random.Random) -> None:
    """Acquires, 200 at a time, cancelled before they ask, while they wait, or about at a hand-off, until so
    many were.
    """
    cancelled = 0
    while cancelled < count:
        tasks: list[asyncio.Task[bool]] = []
        for i in range(200):
            name, fair = f"flood-{i % LOCKS}", i % 3 == 0
            lock = clients[i % 2].lock(name, fair=fair)
            if i % 4 == 0 and hasattr(asyncio, "timeout"):
                tasks.append(asyncio.ensure_future(_timed(lock, chance.random() * 0.02)))
            else:
                tasks.append(asyncio.ensure_future(_acquire(lock)))
        chance.shuffle(tasks)
        for i, task in enumerate(tasks):
            task.cancel()
            if i % 10 == 9:
                await asyncio.sleep(0 if i % 20 == 9 else chance.random() * 0.002)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result in (True, False) or isinstance(result, asyncio.CancelledError)
            cancelled += result is not True


def test_thousands_of_cancelled_acquires_leave_nothing_and_the_process_does_not_grow(eyes: Eyes) -> None:
    def size() -> tuple[int, int]:
        gc.collect()
        return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))

    async def main() -> None:
        chance = random.Random(7)
        async with Client(eyes.urls, TTL) as client, Client(eyes.urls, TTL) as other:
            both = [client, other]
            busy = [
                asyncio.ensure_future(_hold_now_and_then(both[i % 2].lock(f"flood-{i}")))
                for i in range(LOCKS)
            ]
            await _flood(both, 1000, chance)
            await asyncio.sleep(0.2)
            objects, descriptors = size()
            await _flood(both, 3000, chance)
            await asyncio.sleep(0.2)
            grown, opened = size()
            # Three thousand of anything would show.
            assert grown - objects < 1500
            assert opened - descriptors <= 4
            for task in busy:
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)
            for i in range(LOCKS):
                await free_at_once(client, f"flood-{i}")
            await nothing_left(eyes, client, other)
            await quiet(eyes)

    asyncio.run(main())
