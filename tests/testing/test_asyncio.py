"""memory_client and lose, for code with asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import rlock.asyncio
from rlock.testing import MemoryMasters, lose, memory_client


@asynccontextmanager
async def in_memory(masters: MemoryMasters | None = None) -> AsyncIterator[rlock.asyncio.Client]:
    async with memory_client(3, masters=masters, kind=rlock.asyncio.Client) as client:
        yield client


def test_a_hold_is_lost_at_once_and_everything_says_so() -> None:
    async def main() -> None:
        told: list[rlock.LeaseLostError] = []
        async with in_memory() as client:
            lock = client.lock("x", on_lost=told.append)
            await lock.acquire()
            lost, began = lock.lost, time.monotonic()
            await lose(lock)
            # A third of the ttl is 3.3 s.
            assert time.monotonic() - began < 1.0
            assert lost.is_set()
            with pytest.raises(rlock.LeaseLostError, match="evicted"):
                lock.check()
            await asyncio.sleep(0)
            assert len(told) == 1
            with pytest.raises(rlock.LeaseLostError):
                await lock.release()
            assert await lock.acquire(timeout=1)
            await lock.release()

    asyncio.run(main())


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
