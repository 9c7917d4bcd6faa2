"""The owner is a task: time-outs, groups, children, and tasks that end with a lock."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

import rlock
from rlock.asyncio import Client, RLock

from .conftest import Run
from .stepping import Eyes, nothing_left, quiet, soon

SHORT = 0.6


def test_the_lock_of_a_task_that_has_ended_is_renewed_no_more_logged_and_free_within_its_lease(
    run: Run, eyes: Eyes, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[rlock.LeaseLostError] = []

    async def leave(lock: RLock) -> None:
        await lock.acquire()

    async def main() -> None:
        async with Client(eyes.urls, SHORT) as client, Client(eyes.urls, SHORT) as other:
            began = time.monotonic()
            await asyncio.ensure_future(leave(client.lock("x", on_lost=lost.append)))
            assert await other.lock("x").acquire(timeout=5.0)
            assert SHORT * 0.8 < time.monotonic() - began < SHORT + 2
            assert "'x' is renewed no more" in caplog.text
            assert await soon(lambda: len(lost) == 1)
            await other.lock("x").release()
            await nothing_left(eyes, client, other)
            await quiet(eyes)

    caplog.set_level(logging.INFO, "rlock")
    run(main())
