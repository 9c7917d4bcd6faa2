"""Many users, and masters that change: what holds today is to stay so. Most limits are ratios."""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.testing.local.embedded import ServerBinary

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .conftest import ClientFor, usable

pytestmark = pytest.mark.slow


async def _calls(urls: Sequence[str], tasks: int) -> float:
    """How many functions of Python each of so many tasks calls until all have had one lock."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    async with rlock.asyncio.Client(urls, 10.0, restart_guard=0) as client:

        async def one() -> None:
            async with client.lock("x"):
                pass

        sys.setprofile(count)
        try:
            await asyncio.gather(*(one() for _ in range(tasks)))
        finally:
            sys.setprofile(None)
    return calls / tasks


def test_a_task_among_two_thousand_on_one_lock_costs_what_it_costs_among_two_hundred(masters3: Fleet) -> None:
    few, many = (asyncio.run(_calls(masters3.urls, tasks)) for tasks in (200, 2_000))
    assert many < 2 * few


def test_a_name_that_moves_to_another_address_is_looked_up_again(
    fresh_masters: FreshMasters, server: ServerBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = fresh_masters(1, binary=server)[0], fresh_masters(1, binary=server)[0]
    look_up, now = socket.getaddrinfo, [before]

    def moving(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "moves.test":
            return look_up(host, port, *args, **options)
        return look_up("127.0.0.1", int(now[0].url.rpartition(":")[2]), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", moving)
    with rlock.Client([f"{before.url.rpartition('@')[0]}@moves.test:6379"], 3.0, restart_guard=0) as client:
        usable(client)
        now[0] = after
        before.kill()
        usable(client)
    with raw(after.url) as known:
        assert known.exists("rlock:fleet")


def test_after_a_kill_of_all_connections_no_time_out_is_waited_for(
    masters3: Fleet, client_for: ClientFor
) -> None:
    client, took = client_for(masters3.urls, 10.0, request_timeout=1.0), list[float]()
    usable(client)
    for _ in range(5):
        for url in masters3.urls:
            with raw(url) as server:
                server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        began = time.monotonic()
        usable(client)
        took.append(time.monotonic() - began)
    assert statistics.median(took) < 0.5
    assert eventually(lambda: client.lock("x").locked() is False)
