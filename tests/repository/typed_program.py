"""What strict type checkers must accept of a user, and refuse: an ignored line without an error is an error.

Never run: test_packaging.py checks it against the installed package.
"""

from __future__ import annotations

import threading
from typing import assert_type

import rlock
import rlock.asyncio

client, tasks = rlock.Client("redis://localhost"), rlock.asyncio.Client("redis://localhost")
condition = threading.Condition(client.lock("x"))


def of_a_library(lock: threading.RLock) -> None: ...


def of_a_user(lock: rlock.Lock) -> None:
    if lock.acquire(timeout=5) and lock.acquire(False):
        lock.release()
    with lock:
        pass


async def of_tasks(lock: rlock.asyncio.Lock) -> None:
    if await lock.acquire(blocking=False):
        await lock.release()
    async with lock:
        pass


@rlock.locked(client, "report:{user}", blocking=False)
def report(user: int) -> str:
    return "done"


@rlock.locked(tasks, "report", timeout=5)
async def report_as_a_task() -> int:
    return 3


def leads(token: int) -> None: ...


async def main() -> None:
    of_a_library(client.lock("x"))
    for lock in (client.lock("x"), client.semaphore("x", permits=3), client.locks(["a"]), threading.RLock()):
        of_a_user(lock)
    for awaited in (tasks.lock("x"), tasks.semaphore("x", permits=3), tasks.locks(["a"])):
        await of_tasks(awaited)
    of_a_user(tasks.lock("x"))  # type: ignore[arg-type]
    of_a_library(client.semaphore("x", permits=3))  # type: ignore[arg-type]
    with client.leader("x", leads) as leader, client.lock("x") as held:
        assert_type((leader.is_leader(), held), tuple[bool, rlock.RLock])
    assert_type(report(3), str | None)
    assert_type(await report_as_a_task(), int)
