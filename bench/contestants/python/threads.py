"""The requests, performed by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from library import Library, Lock, Unsupported

#: How long one acquire may wait, unless the request says.
PATIENCE_MS = 10_000.0
#: A library that fails at once would take a core from the others, and fill the reply.
AFTER_ERROR_S = 0.001

now = time.monotonic_ns


class Threads:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.locks: dict[str, Lock] = {}

    def lock(self, name: str) -> Lock:
        """The main thread's lock of this name: requests that follow each other mean the same one."""
        if name not in self.locks:
            self.locks[name] = self.library.lock(name)
        return self.locks[name]

    def pairs(self, lock: str, count: int) -> dict[str, Any]:
        return _pairs(self.lock(lock), count)

    def nested(self, lock: str, count: int) -> dict[str, Any]:
        if not self.library.reentrant:
            raise Unsupported("not reentrant")
        outer = self.lock(lock)
        _acquire(outer)
        try:
            return _pairs(outer, count)
        finally:
            outer.release()

    def throughput(self, prefix: str, threads: int, seconds: float) -> dict[str, Any]:
        done, errors = [0] * threads, [""] * threads
        # Before the clock starts: a lock of some libraries connects when it is made.
        locks = [self.library.lock(f"{prefix}{i}") for i in range(threads)]
        began = now()
        until = began + round(seconds * 1e9)

        def loop(i: int) -> None:
            lock = locks[i]
            while now() < until:
                try:
                    _acquire(lock)
                    lock.release()
                except Exception as error:
                    errors[i] = told(error)
                    return
                done[i] += 1

        _together(threads, loop)
        return {"pairs": sum(done), "ns": now() - began, "errors": [error for error in errors if error]}

    def contend(
        self, lock: str, threads: int, hold_us: int, start_ns: int, stop_ns: int, wait_ms: float = PATIENCE_MS
    ) -> dict[str, Any]:
        sections: list[tuple[int, int, int, int]] = []
        errors: list[str] = []

        def loop(i: int) -> None:
            mine = self.library.lock(lock)
            time.sleep(max(0, start_ns - now()) / 1e9)
            while (asked := now()) < stop_ns:
                try:
                    _acquire(mine, wait_ms)
                    entered = now()
                    time.sleep(hold_us / 1e6)
                    left = now()
                    sections.append((i, asked, entered, left))
                    mine.release()
                except Exception as error:
                    errors.append(told(error))
                    time.sleep(AFTER_ERROR_S)

        _together(threads, loop)
        return {"sections": sections, "errors": errors}

    def acquire(self, lock: str, wait_ms: int) -> dict[str, Any]:
        asked = now()
        acquired = self.lock(lock).acquire(wait_ms / 1000)
        return {"acquired": bool(acquired), "asked": asked, "entered": now()}

    def release(self, lock: str) -> dict[str, Any]:
        began = now()
        self.lock(lock).release()
        return {"began": began, "ended": now()}

    def wait(self, lock: str, threads: int) -> dict[str, Any]:
        def loop() -> None:
            self.library.lock(lock).acquire(3600.0)

        for _ in range(threads):
            threading.Thread(target=loop, daemon=True).start()
        return {"waiting": threads}

    def hold(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            lock = self.locks[f"{prefix}{i}"] = self.library.kept(f"{prefix}{i}")
            _acquire(lock)
        return {"acquired": count}

    def drop(self, prefix: str, count: int) -> dict[str, Any]:
        for i in range(count):
            self.locks.pop(f"{prefix}{i}").release()
        return {"released": count}


def _acquire(lock: Lock, wait_ms: float = PATIENCE_MS) -> None:
    if not lock.acquire(wait_ms / 1000):
        raise TimeoutError(f"not acquired within {wait_ms:g} ms")


def _pairs(lock: Lock, count: int) -> dict[str, Any]:
    took: list[int] = []
    errors: list[str] = []
    for _ in range(count):
        began = now()
        try:
            _acquire(lock)
            lock.release()
        except Exception as error:
            errors.append(told(error))
            continue
        took.append(now() - began)
    return {"ns": took, "errors": errors}


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _together(threads: int, loop: Callable[[int], None]) -> None:
    running = [threading.Thread(target=loop, args=(i,), daemon=True) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
