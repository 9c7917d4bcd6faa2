"""A semaphore and several names: Ctrl-C before each line, and cancelled tasks, leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.testing import MemoryMasters, memory_client

from ..interrupts import interrupted
from .conftest import eventually
from .recipes import Connect
from .recipes import connect as connect  # a fixture
from .recipes import masters as masters  # a fixture

#: They exclude each other.
MAKE: dict[str, Callable[[Any], Any]] = {
    "semaphore": lambda client: client.semaphore("gpu", permits=1),
    "several": lambda client: client.locks(["a", "b", "gpu#0"]),
}
recipes = pytest.mark.parametrize("make", MAKE.values(), ids=[*MAKE])


def keys(masters: MemoryMasters) -> list[set[str]]:
    """The locks and queues on each master."""
    found = []
    for master in masters:
        with master.mutex:
            there = [key for key in list(master._keys.keys) if master._keys.look(key)]
        found.append({key for key in there if key != "rlock:fleet" and not key.endswith(":fence")})
    return found


@recipes
@pytest.mark.parametrize("case", ["free", "refused", "released"])
def test_an_interrupt_leaves_nothing_behind(
    connect: Connect, masters: MemoryMasters, make: Callable[[Any], Any], case: str
) -> None:
    client, holder = connect(), connect().lock("gpu#0")
    if case == "refused":
        holder.acquire()
    before = keys(masters)
    # No lock survives Ctrl-C between the body and the first line of __exit__.
    at = 2 if case == "released" else 0
    while True:
        at, recipe = at + 1, make(client)
        if case == "released":
            recipe.acquire()
        with interrupted(at, "holding.py", "several.py", "semaphore.py") as found:
            if case == "released":
                recipe.__exit__(None, None, None)
            else:
                recipe.acquire(timeout=0.02)
        if not found.where:
            break
        assert not len(client._engine().holds), found.where
        assert eventually(lambda: keys(masters) == before), found.where
    assert at > 20


@recipes
def test_a_cancelled_task_leaves_nothing_behind(masters: MemoryMasters, make: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with memory_client(masters=masters, kind=rlock.asyncio.Client) as client:
            async with client.lock("gpu#0"):
                before = keys(masters)
                for pause in (0.0, 0.001, 0.3):
                    # The first one waits for the permit, or for the name. The second one waits at the gate.
                    waiters = [asyncio.create_task(make(client).acquire()) for _ in range(2)]
                    await asyncio.sleep(pause)
                    for waiter in waiters[:: 1 if pause else -1]:
                        waiter.cancel()
                        await asyncio.wait([waiter])
                        assert waiter.cancelled()
                    await asyncio.sleep(0.1)
                    assert keys(masters) == before
            async with make(client) as recipe:
                assert recipe.remaining() > 0.0
                assert not await recipe.lost.wait(0.01)

    asyncio.run(main())
