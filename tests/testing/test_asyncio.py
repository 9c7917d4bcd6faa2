"""memory_client and lose, for code with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rlock.asyncio
from rlock.testing import MemoryMasters, memory_client


@asynccontextmanager
async def in_memory(masters: MemoryMasters | None = None) -> AsyncIterator[rlock.asyncio.Client]:
    async with memory_client(3, masters=masters, kind=rlock.asyncio.Client) as client:
        yield client


def test_clients_of_both_kinds_exclude_and_wake_each_other_in_memory() -> None:
    fleet = MemoryMasters()
    with memory_client(masters=fleet) as blocking:

        async def main() -> None:
            async with in_memory(fleet) as client:
                lock = client.lock("x")
                async with lock:
                    assert not await asyncio.to_thread(blocking.lock("x").acquire, False)
                with blocking.lock("x"):
                    assert not await lock.acquire(blocking=False)
                    waiting = asyncio.create_task(lock.acquire(timeout=20))
                    while not (await lock.statistics()).queue_length:
                        await asyncio.sleep(0.01)
                assert await waiting

        asyncio.run(main())
