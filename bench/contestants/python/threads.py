"""The requests, performed by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from library import Library, Lock, Unsupported

#: How long one acquire may wait, unless the request says.
PATIENCE_MS = 10_000.0
#: Stands for a wait without an end: not every library knows one.
ENDLESS_S = 3600.0
#: A library that fails at once would take a core from the others, and fill the reply.
AFTER_ERROR_S = 0.001

now = time.monotonic_ns


class Threads:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.locks: dict[tuple[str, int], Lock] = {}

    def lock(self, name: str, thread: int = 0) -> Lock:
        """A thread's lock of this name: requests that follow each other mean the same one."""
        if (name, thread) not in self.locks:
            self.locks[name, thread] = self.library.lock(name)
        return self.locks[name, thread]

    def loop(
        self, lock: str, threads: int = 1, own: bool = False, nested: bool = False, **turns: Any
    ) -> dict[str, Any]:
        sections: list[list[int]] = []
        errors: list[str] = []
        locks = [self.lock(f"{lock}{i}" if own else lock, i) for i in range(threads)]
        if nested:
            if not self.library.reentrant:
                raise Unsupported("not reentrant")
            _acquire(locks[0], PATIENCE_MS)
        try:
            if threads == 1:  # by the owner of locks that `acquire` has got
                _loop(locks[0], 0, sections, errors, **turns)
            else:
                running = [
                    threading.Thread(target=_loop, args=(each, i, sections, errors), kwargs=turns)
                    for i, each in enumerate(locks)
                ]
                for thread in running:
                    thread.start()
                for thread in running:
                    thread.join()
        finally:
            if nested:
                locks[0].release()
        return {"sections": sections, "errors": errors}

    def acquire(self, lock: str, wait_ms: float) -> dict[str, Any]:
        asked = now()
        acquired = self.lock(lock).acquire(wait_ms / 1000)
        return {"acquired": bool(acquired), "asked": asked, "entered": now()}

    def release(self, lock: str) -> dict[str, Any]:
        began = now()
        self.lock(lock).release()
        return {"began": began}

    def hold(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            lock = self.locks[f"{prefix}{i}", 0] = self.library.kept(f"{prefix}{i}")
            _acquire(lock, PATIENCE_MS)
        return {}

    def drop(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            self.locks.pop((f"{prefix}{i}", 0)).release()
        return {}


def turns_of(count: int | None, stop_ns: int) -> Iterator[object]:
    """So many turns, or turns until an instant."""
    return iter(range(count)) if count else iter(lambda: now() < stop_ns, False)


def _acquire(lock: Lock, wait_ms: float) -> None:
    if not lock.acquire(ENDLESS_S if wait_ms < 0 else wait_ms / 1000):
        raise TimeoutError(f"not acquired within {wait_ms:g} ms")


def _loop(
    lock: Lock,
    i: int,
    sections: list[list[int]],
    errors: list[str],
    count: int | None = None,
    hold_us: int = 0,
    start_ns: int = 0,
    stop_ns: int = 0,
    wait_ms: float = PATIENCE_MS,
) -> None:
    time.sleep(max(0, start_ns - now()) / 1e9)
    for _ in turns_of(count, stop_ns):
        asked = now()
        try:
            _acquire(lock, wait_ms)
            entered = now()
            if hold_us:
                time.sleep(hold_us / 1e6)
            section = [i, asked, entered, now(), 0]
            sections.append(section)  # before a release that may fail
            lock.release()
            section[-1] = now()
        except Exception as error:
            errors.append(told(error))
            time.sleep(AFTER_ERROR_S)


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
