"""The requests, performed by threads, or by tasks where the library is for an event loop.

The coroutines of a library for threads await nothing: `run` runs each in the thread that calls it.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Coroutine
from typing import Any

from library import AsyncLibrary, Library, Lock, Unsupported

#: How long one acquire may wait, unless the request says.
PATIENCE_MS = 10_000.0
#: Stands for a wait without an end: not every library knows one.
ENDLESS_S = 3600.0
#: A library that fails at once would take a core from the others, and fill the reply.
AFTER_ERROR_NS = 1_000_000

now = time.monotonic_ns


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("a library for threads awaits nothing")


class Loops:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.awaits = isinstance(library, AsyncLibrary)
        self.locks: dict[tuple[str, int, bool], Lock] = {}

    def lock(self, name: str, thread: int = 0, shared: bool = False) -> Lock:
        """A thread's lock of this name: requests that follow each other mean the same one."""
        if (name, thread, shared) not in self.locks:
            self.locks[name, thread, shared] = (self.library.shared if shared else self.library.lock)(name)
        return self.locks[name, thread, shared]

    async def loop(
        self,
        lock: str,
        threads: int = 1,
        own: bool = False,
        nested: bool = False,
        readers: float = 0.0,
        **turns: Any,
    ) -> dict[str, Any]:
        sections: list[list[int]] = []
        errors: list[str] = []
        locks = [self.lock(f"{lock}{i}" if own else lock, i) for i in range(threads)]
        shared = [self.lock(lock, i, shared=True) for i in range(threads)] if readers else locks
        if nested:
            if not self.library.reentrant:
                raise Unsupported("not reentrant")
            await self._acquire(locks[0])
        try:
            loops = [
                self._loop(each, i, sections, errors, (shared[i], readers), **turns)
                for i, each in enumerate(locks)
            ]
            if threads == 1:  # by the owner of locks that `acquire` has got
                await loops[0]
            elif self.awaits:
                await asyncio.gather(*loops)
            else:
                running = [threading.Thread(target=run, args=(each,)) for each in loops]
                for thread in running:
                    thread.start()
                for thread in running:
                    thread.join()
        finally:
            if nested:
                await self._release(locks[0])
        return {"sections": sections, "errors": errors}

    async def acquire(self, lock: str, wait_ms: float) -> dict[str, Any]:
        asked = now()
        acquired = self.lock(lock).acquire(wait_ms / 1000)
        return {
            "acquired": bool(await acquired if self.awaits else acquired),
            "asked": asked,
            "entered": now(),
        }

    async def release(self, lock: str) -> dict[str, Any]:
        began = now()
        await self._release(self.lock(lock))
        return {"began": began}

    async def hold(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            lock = self.locks[f"{prefix}{i}", 0, False] = self.library.kept(f"{prefix}{i}")
            await self._acquire(lock)
        return {}

    async def drop(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            await self._release(self.locks.pop((f"{prefix}{i}", 0, False)))
        return {}

    async def _acquire(self, lock: Lock, wait_ms: float = PATIENCE_MS) -> None:
        acquired = lock.acquire(ENDLESS_S if wait_ms < 0 else wait_ms / 1000)
        if not (await acquired if self.awaits else acquired):
            raise TimeoutError(f"not acquired within {wait_ms:g} ms")

    async def _release(self, lock: Lock) -> None:
        released = lock.release()
        if self.awaits:
            await released

    async def _pause(self, ns: int) -> None:
        if self.awaits and ns > 0:
            await asyncio.sleep(ns / 1e9)
        elif ns > 0:
            time.sleep(ns / 1e9)

    async def _loop(
        self,
        writer: Lock,
        i: int,
        sections: list[list[int]],
        errors: list[str],
        readers: tuple[Lock, float],
        count: int | None = None,
        hold_us: int = 0,
        start_ns: int = 0,
        stop_ns: int = 0,
        wait_ms: float = PATIENCE_MS,
    ) -> None:
        await self._pause(start_ns - now())
        turns = iter(range(count)) if count else iter(lambda: now() < stop_ns, False)
        for _ in turns:
            shared = random.random() < readers[1]
            lock = readers[0] if shared else writer
            asked = now()
            try:
                await self._acquire(lock, wait_ms)
                entered = now()
                if hold_us:
                    await self._pause(hold_us * 1000)
                section = [i, asked, entered, now(), 0, *([1] if shared else [])]
                sections.append(section)  # before a release that may fail
                await self._release(lock)
                section[4] = now()
            except Exception as error:
                errors.append(told(error))
                await self._pause(AFTER_ERROR_NS)


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
