"""Many users, and masters that change: what holds today is to stay so. Most limits are ratios."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
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

#: A waiter looks at a master once a second: a pause that long is a message that nobody heard.
LOOK_S = 1.0


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


def _hold_often(urls: Sequence[str], begin: Any, times: Any) -> None:
    with rlock.Client(urls, 10.0, restart_guard=0) as client:
        begin.wait(60)
        for _ in range(3):
            with client.lock("x"):
                times.put(time.monotonic())


def test_sixty_processes_on_one_lock_leave_no_pause_of_a_lost_message(masters3: Fleet) -> None:
    context, count = multiprocessing.get_context("fork"), 60
    begin, times = context.Barrier(count), context.Queue()
    workers = [context.Process(target=_hold_often, args=(masters3.urls, begin, times)) for _ in range(count)]
    for worker in workers:
        worker.start()
    at = sorted(times.get(timeout=60) for _ in range(3 * count))
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0] * count
    assert max(later - earlier for earlier, later in itertools.pairwise(at)) < LOOK_S


def test_a_hundred_candidates_have_the_next_leader_without_a_look(masters3: Fleet) -> None:
    led, gaps, clients = threading.Semaphore(0), list[float](), 5
    with ExitStack() as stack:
        found = [
            stack.enter_context(rlock.Client(masters3.urls, 10.0, restart_guard=0)) for _ in range(clients)
        ]
        candidates = [found[i % clients].leader("x", lambda _: led.release()) for i in range(100)]
        for candidate in candidates:
            stack.enter_context(candidate)
        assert led.acquire(timeout=30)
        time.sleep(2.0)  # all of them wait
        for _ in range(10):
            (leader,) = [candidate for candidate in candidates if candidate.is_leader()]
            began = time.monotonic()
            leader.resign()
            assert led.acquire(timeout=30)
            gaps.append(time.monotonic() - began)
    assert statistics.median(gaps) < LOOK_S / 4


def _spin(until: float) -> None:
    while time.monotonic() < until:
        pass


def test_ten_locks_of_a_second_outlive_programs_that_take_the_processors(
    masters3: Fleet, client_for: ClientFor
) -> None:
    client, seconds = client_for(masters3.urls, 1.0), 15.0
    locks = [client.lock(f"x{i}") for i in range(10)]
    for lock in locks:
        lock.acquire()
    until, context = time.monotonic() + seconds, multiprocessing.get_context("fork")
    spinning = [context.Process(target=_spin, args=(until,)) for _ in range(2 * (os.cpu_count() or 1))]
    for one in spinning:
        one.start()
    for one in spinning:
        one.join()
    for lock in locks:
        lock.check()
        lock.release()


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
