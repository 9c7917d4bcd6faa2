"""Prefect's `LockManager` on a quorum.

    INPUTS.configure(isolation_level=SERIALIZABLE, lock_manager=LockManager(["redis://10.0.0.1"]))
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import rlock.asyncio

from . import redis_py


class LockManager:
    """Its locks live in an event loop of its own: a release may come from any thread or task."""

    def __init__(self, masters: list[str], **options: Any) -> None:
        self._arguments = masters, options
        self._lock_class = redis_py.lock_class(rlock.asyncio.Client(masters, **options))
        self._locks: dict[str, tuple[str, redis_py.AsyncLock]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="rlock-prefect", daemon=True).start()

    def __reduce__(self) -> Any:
        return _made, self._arguments

    def _start(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = self._start(work)
        try:
            return future.result()
        finally:
            future.cancel()  # after Ctrl-C
