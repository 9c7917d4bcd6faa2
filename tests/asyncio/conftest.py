"""Event loops for the tests of rlock.asyncio, which may be coroutine functions, and what they look with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

import rlock.asyncio
from evidence.interrupts.cancellations import notes
from rlock.rules.keys import queue

from ..servers import Fleet, left, raw

Run = Callable[[Coroutine[Any, Any, Any]], Any]

#: Long enough for an undo that is missing to show: the lock would not be free again within a test's patience.
TTL = 10.0
#: Less than the second after which masters take back what they have handed to a waiter that is gone.
AT_ONCE_S = 0.9


class Eyes:
    """Looks into masters, behind the back of all clients."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.raws = [raw(url) for url in urls]

    def keys(self) -> list[str]:
        """Keys that are left on any master, but for those that stay."""
        return [key for url in self.urls for key in left(url)]

    def queued(self, name: str) -> int:
        """How many places the queue of a lock has, on the first master."""
        return int(self.raws[0].zcard(queue(name)))

    def connections(self) -> int:
        return len(self.raws[0].client_list())

    def close(self) -> None:
        for one in self.raws:
            one.close()


async def soon(what: Callable[[], Any], within: float = 3.0) -> Any:
    """The value of ``what()`` as soon as it is true, or its last one."""
    until = time.monotonic() + within
    while not (value := what()) and time.monotonic() < until:
        await asyncio.sleep(0.003)
    return value


async def nothing_left(eyes: Eyes, *clients: rlock.asyncio.Client) -> None:
    """No vote, no place in a queue, and no note of either in the clients."""
    await soon(lambda: not eyes.keys() and not any(notes(client) for client in clients))
    assert not eyes.keys()
    assert [notes(client) for client in clients] == [[] for _ in clients]


async def free_at_once(client: rlock.asyncio.Client, name: str) -> None:
    """Another client gets the lock, and not after a lease."""
    lock = client.lock(name)
    assert await lock.acquire(timeout=AT_ONCE_S), f"{name} is still locked"
    await lock.release()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of a module that says `EVERY_LOOP = True` run in both event loops."""
    every = getattr(metafunc.module, "EVERY_LOOP", False)
    loops = ["asyncio", *([pytest.param("uvloop", marks=pytest.mark.slow)] if every else [])]
    metafunc.parametrize("run", loops, indirect=True)


@pytest.fixture(autouse=True)
def run(request: pytest.FixtureRequest) -> Run:
    """``asyncio.run`` of an event loop."""
    if request.param == "asyncio":
        return asyncio.run
    uvloop = pytest.importorskip("uvloop", reason="uvloop is in the group test-all")
    found: Run = uvloop.run
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test, given = pyfuncitem.obj, pyfuncitem.funcargs
    if not iscoroutinefunction(test):
        return None
    loop: Any = given["run"]
    loop(test(**{name: given[name] for name in signature(test).parameters}))
    return True


@pytest.fixture
def eyes(masters: Fleet) -> Iterator[Eyes]:
    """Looks into the first three masters."""
    with closing(Eyes(masters(3).urls)) as eyes:
        yield eyes
