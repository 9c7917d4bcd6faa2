"""The requests, performed by tasks of one event loop. The same as in ``threads.py``, awaited."""

from __future__ import annotations

import asyncio
from typing import Any

from library import AsyncLibrary, AsyncLock, Unsupported
from threads import AFTER_ERROR_S, ENDLESS_S, PATIENCE_MS, now, told, turns_of


class Tasks:
    def __init__(self, library: AsyncLibrary) -> None:
        self.library = library
        self.locks: dict[tuple[str, int], AsyncLock] = {}

    def lock(self, name: str, task: int = 0) -> AsyncLock:
        if (name, task) not in self.locks:
            self.locks[name, task] = self.library.lock(name)
        return self.locks[name, task]

    async def loop(
        self, lock: str, threads: int = 1, own: bool = False, nested: bool = False, **turns: Any
    ) -> dict[str, Any]:
        sections: list[list[int]] = []
        errors: list[str] = []
        locks = [self.lock(f"{lock}{i}" if own else lock, i) for i in range(threads)]
        if nested:
            if not self.library.reentrant:
                raise Unsupported("not reentrant")
            await _acquire(locks[0], PATIENCE_MS)
        try:
            if threads == 1:
                await _loop(locks[0], 0, sections, errors, **turns)
            else:
                loops = (_loop(each, i, sections, errors, **turns) for i, each in enumerate(locks))
                await asyncio.gather(*loops)
        finally:
            if nested:
                await locks[0].release()
        return {"sections": sections, "errors": errors}

    async def acquire(self, lock: str, wait_ms: float) -> dict[str, Any]:
        asked = now()
        acquired = await self.lock(lock).acquire(wait_ms / 1000)
        return {"acquired": bool(acquired), "asked": asked, "entered": now()}

    async def release(self, lock: str) -> dict[str, Any]:
        began = now()
        await self.lock(lock).release()
        return {"began": began}


async def _acquire(lock: AsyncLock, wait_ms: float) -> None:
    if not await lock.acquire(ENDLESS_S if wait_ms < 0 else wait_ms / 1000):
        raise TimeoutError(f"not acquired within {wait_ms:g} ms")


async def _loop(
    lock: AsyncLock,
    i: int,
    sections: list[list[int]],
    errors: list[str],
    count: int | None = None,
    hold_us: int = 0,
    start_ns: int = 0,
    stop_ns: int = 0,
    wait_ms: float = PATIENCE_MS,
) -> None:
    if start_ns:
        await asyncio.sleep(max(0, start_ns - now()) / 1e9)
    for _ in turns_of(count, stop_ns):
        asked = now()
        try:
            await _acquire(lock, wait_ms)
            entered = now()
            if hold_us:
                await asyncio.sleep(hold_us / 1e6)
            section = [i, asked, entered, now(), 0]
            sections.append(section)
            await lock.release()
            section[-1] = now()
        except Exception as error:
            errors.append(told(error))
            await asyncio.sleep(AFTER_ERROR_S)
