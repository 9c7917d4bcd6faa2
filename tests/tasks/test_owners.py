"""The owner is a task: time-outs, groups, children, and tasks that end with a lock."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import pytest

import rlock
from rlock.asyncio import Client, RLock

from .conftest import Run
from .stepping import TTL, Eyes, free_at_once, nothing_left, quiet, soon

since_311 = pytest.mark.skipif(sys.version_info < (3, 11), reason="not in this Python")
SHORT = 0.6


async def _take(lock: RLock) -> str:
    async with lock:
        return "done"


@since_311
@pytest.mark.parametrize("fair", [False, True])
def test_a_timeout_of_asyncio_ends_a_wait_and_leaves_nothing(run: Run, eyes: Eyes, fair: bool) -> None:
    async def main() -> None:
        async with Client(eyes.urls, TTL) as client, Client(eyes.urls, TTL) as other:
            async with other.lock("x", fair=fair):
                began = time.monotonic()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.15):
                        await client.lock("x", fair=fair).acquire()
                assert 0.1 < time.monotonic() - began < 1.5
                assert await soon(lambda: not eyes.queued("x")), "its place stands"
            await free_at_once(other, "x")
            await nothing_left(eyes, client, other)

    run(main())


@since_311
def test_a_group_whose_task_fails_cancels_those_that_wait_and_leaves_nothing(run: Run, eyes: Eyes) -> None:
    async def fail(lock: RLock) -> None:
        async with lock:
            await soon(lambda: eyes.queued("x"))
            raise ValueError("mine")

    async def main() -> None:
        async with Client(eyes.urls, TTL) as client, Client(eyes.urls, TTL) as other:
            async with other.lock("x"):
                with pytest.raises(BaseException) as caught:
                    async with asyncio.TaskGroup() as group:
                        waiting = [group.create_task(_take(client.lock("x"))) for _ in range(5)]
                        group.create_task(fail(client.lock("y")))
                assert [type(error) for error in caught.value.exceptions] == [ValueError]  # type: ignore
                assert all(task.cancelled() for task in waiting)
            await free_at_once(other, "x")
            await free_at_once(other, "y")
            await nothing_left(eyes, client, other)
            await quiet_but_for_the_clients(client)

    async def quiet_but_for_the_clients(client: Client) -> None:
        assert await asyncio.gather(*[_take(client.lock("x")) for _ in range(5)]) == ["done"] * 5

    run(main())


def test_a_shielded_acquire_goes_on_and_is_nobodys_when_the_caller_is_cancelled(
    run: Run, eyes1: Eyes, caplog: pytest.LogCaptureFixture
) -> None:
    async def shielded(lock: RLock) -> None:
        await asyncio.shield(lock.acquire())

    async def main() -> None:
        async with Client(eyes1.urls, SHORT) as client, Client(eyes1.urls, SHORT) as other:
            async with other.lock("x"):
                caller = asyncio.ensure_future(shielded(client.lock("x")))
                await soon(lambda: eyes1.queued("x"))
                caller.cancel()
                await asyncio.sleep(0.05)
                assert caller.cancelled()
                assert eyes1.queued("x") == 1
            # The child has it, and has ended: a lease, and no more.
            assert await soon(lambda: "'x' is renewed no more" in caplog.text)
            assert await other.lock("x").acquire(timeout=SHORT + 1.5)

    run(main())


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
