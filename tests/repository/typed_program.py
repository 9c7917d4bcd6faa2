"""What strict type checkers must accept of a user, and refuse: an ignored line without an error is an error.

Never run: test_packaging.py checks it against the installed package.
"""

import threading
from typing import assert_type

import rlock
import rlock.asyncio

client, tasks = rlock.Client("redis://localhost"), rlock.asyncio.Client("redis://localhost")
condition = threading.Condition(client.lock("x"))


def of_a_library(lock: threading.RLock) -> None: ...


def of_a_user(lock: rlock.Lock) -> None:
    with lock:
        assert_type(lock.acquire(False, timeout=5), bool)


async def of_tasks(lock: rlock.asyncio.Lock) -> None:
    async with lock:
        assert_type(await lock.acquire(blocking=False), bool)


@rlock.locked(client, "a:{x}", blocking=False)
def skipped(x: int) -> float:
    return 1.0


@rlock.locked(client, "a:{x}", timeout=3, on_busy="skip")
def answered(x: int) -> float:
    return 1.0


@rlock.locked(tasks, "a:{x}", blocking=False)
async def task(x: int) -> float:
    return 1.0


class Shop:
    @rlock.locked(client, "a:{x}", timeout=3)
    def method(self, x: int) -> float:
        return 1.0


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
    assert_type((skipped(1), answered(1)), tuple[float | None, float | None])
    assert_type((await task(1), Shop().method(1)), tuple[float | None, float])
    skipped("a")  # type: ignore[arg-type]
    Shop().method("a")  # type: ignore[arg-type]
