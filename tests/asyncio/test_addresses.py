"""Names of masters: a resolver that hangs, and a name of which one address is dead."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rlock
from rlock.asyncio import Client

from ..servers import raw
from .conftest import Run
from .eyes import Eyes

EVERY_LOOP = True

_LOOK_UP = socket.getaddrinfo


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], Any]]:
    """Names and what looks each of them up; the resolver knows the others."""
    known: dict[str, Callable[[], Any]] = {}

    def look_up(host: Any, *args: Any, **options: Any) -> Any:
        if host in known and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            return known[host]()
        return _LOOK_UP(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


@pytest.fixture
def dead() -> Iterator[tuple[str, int]]:
    """An address that answers no SYN: the backlog of its socket is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        time.sleep(0.05)
        yield listening.getsockname()
        for one in waiting:
            one.close()


def test_a_name_that_hangs_costs_its_master_and_no_thread_of_the_loop(
    run: Run, eyes: Eyes, names: dict[str, Callable[[], Any]]
) -> None:
    mended = threading.Event()
    names["hangs.test"] = lambda: mended.wait(20) and []
    urls = [url.replace("127.0.0.1", "localhost") for url in eyes.urls[:2]]

    async def main() -> float:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        client = Client([*urls, "redis://hangs.test:6379"], 2.0)
        for _ in range(3):
            assert await client.lock("x").acquire(timeout=1.5)
            await client.lock("x").release()
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 2.0) == 1
            for url in eyes.urls[:2]:
                with raw(url) as server:
                    server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.sleep(0.3)
        assert sum(thread.name == "rlock-lookup" for thread in threading.enumerate()) == 1
        await client.close()
        return time.monotonic()

    ended = run(main())
    assert time.monotonic() - ended < 1.0, "the end of the loop waits for the resolver"
    mended.set()


@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
def test_of_two_addresses_the_second_is_tried_if_the_first_is_dead(
    run: Run, eyes1: Eyes, names: dict[str, Callable[[], Any]], dead: tuple[str, int], blocking: bool
) -> None:
    where = ("127.0.0.1", int(eyes1.urls[0].rpartition(":")[2]))
    names["both.test"] = lambda: [
        (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address) for address in (dead, where)
    ]

    url = eyes1.urls[0].replace("127.0.0.1", "both.test")

    async def main() -> None:
        async with Client([url], 2.0) as client:
            assert await client.lock("x").acquire(timeout=2)
            await client.lock("x").release()

    began = time.monotonic()
    if blocking:
        with rlock.Client([url], 2.0) as client, client.lock("x"):
            pass
    else:
        run(main())
    assert time.monotonic() - began < 2.0
