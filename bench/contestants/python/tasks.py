"""The requests, performed by tasks of one event loop. The same as in ``threads.py``, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from library import AsyncLibrary, AsyncLock, Unsupported
from threads import AFTER_ERROR_S, PATIENCE_MS, told

now = time.monotonic_ns


class Tasks:
    def __init__(self, library: AsyncLibrary) -> None:
        self.library = library
        self.locks: dict[str, AsyncLock] = {}
        self.waiting: list[asyncio.Task[None]] = []

    def lock(self, name: str) -> AsyncLock:
        """The main task's lock of this name: requests that follow each other mean the same one."""
        if name not in self.locks:
            self.locks[name] = self.library.lock(name)
        return self.locks[name]

    async def pairs(self, lock: str, count: int) -> dict[str, Any]:
        return await _pairs(self.lock(lock), count)

    async def nested(self, lock: str, count: int) -> dict[str, Any]:
        if not self.library.reentrant:
            raise Unsupported("not reentrant")
        outer = self.lock(lock)
        await _acquire(outer)
        try:
            return await _pairs(outer, count)
        finally:
            await outer.release()

    async def throughput(self, prefix: str, threads: int, seconds: float) -> dict[str, Any]:
        done, errors = [0] * threads, [""] * threads
        # Before the clock starts: a lock of some libraries connects when it is made.
        locks = [self.library.lock(f"{prefix}{i}") for i in range(threads)]
        began = now()
        until = began + round(seconds * 1e9)

        async def loop(i: int) -> None:
            lock = locks[i]
            while now() < until:
                try:
                    await _acquire(lock)
                    await lock.release()
                except Exception as error:
                    errors[i] = told(error)
                    return
                done[i] += 1

        await _together(threads, loop)
        return {"pairs": sum(done), "ns": now() - began, "errors": [error for error in errors if error]}

    async def contend(
        self, lock: str, threads: int, hold_us: int, start_ns: int, stop_ns: int
    ) -> dict[str, Any]:
        sections: list[tuple[int, int, int, int]] = []
        errors: list[str] = []

        async def loop(i: int) -> None:
            mine = self.library.lock(lock)
            await asyncio.sleep(max(0, start_ns - now()) / 1e9)
            while (asked := now()) < stop_ns:
                try:
                    await _acquire(mine)
                    entered = now()
                    await asyncio.sleep(hold_us / 1e6)
                    left = now()
                    sections.append((i, asked, entered, left))
                    await mine.release()
                except Exception as error:
                    errors.append(told(error))
                    await asyncio.sleep(AFTER_ERROR_S)

        await _together(threads, loop)
        return {"sections": sections, "errors": errors}

    async def acquire(self, lock: str, wait_ms: int) -> dict[str, Any]:
        asked = now()
        acquired = await self.lock(lock).acquire(wait_ms / 1000)
        return {"acquired": bool(acquired), "asked": asked, "entered": now()}

    async def release(self, lock: str) -> dict[str, Any]:
        began = now()
        await self.lock(lock).release()
        return {"began": began, "ended": now()}

    async def wait(self, lock: str, threads: int) -> dict[str, Any]:
        async def loop() -> None:
            await self.library.lock(lock).acquire(3600.0)

        self.waiting += [asyncio.create_task(loop()) for _ in range(threads)]
        return {"waiting": threads}


async def _acquire(lock: AsyncLock) -> None:
    if not await lock.acquire(PATIENCE_MS / 1000):
        raise TimeoutError(f"not acquired within {PATIENCE_MS:g} ms")


async def _pairs(lock: AsyncLock, count: int) -> dict[str, Any]:
    took: list[int] = []
    errors: list[str] = []
    for _ in range(count):
        began = now()
        try:
            await _acquire(lock)
            await lock.release()
        except Exception as error:
            errors.append(told(error))
            continue
        took.append(now() - began)
    return {"ns": took, "errors": errors}


async def _together(threads: int, loop: Callable[[int], Awaitable[None]]) -> None:
    await asyncio.gather(*(loop(i) for i in range(threads)))
