"""Hand-offs as a scan counts them, against a contention that is known; and that nobody notices it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rlock
from rlock.cli.scan.look import Scan
from rlock.rules.keys import owner_token, queue, waiter_name

from ..contract.conftest import eventually
from ..servers import AnyMaster, Fleet, raw


@contextmanager
def contention(urls: list[str], name: str, threads: int, hold_s: float) -> Iterator[list[int]]:
    """Threads, each with a client of its own, that take turns; the list grows with each acquire."""
    turns: list[int] = []
    over = threading.Event()

    def work(number: int) -> None:
        with rlock.Client(urls) as client:
            while not over.is_set():
                with client.lock(name):
                    turns.append(number)
                    time.sleep(hold_s)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield turns
    finally:
        over.set()
        for worker in workers:
            worker.join()


def test_nobody_is_taken_for_a_waiter_that_listens(masters1: Fleet) -> None:
    """A release asks PUBLISH whether a waiter is there: a reader must not be counted for one."""
    with rlock.Client(masters1.urls) as client, Scan(client) as scan:
        assert eventually(lambda: scan.look() and scan._hand_offs is not None and scan._hand_offs.since)
        with rlock.Client(masters1.urls) as holder:
            lock = holder.lock("x")
            lock.acquire()
            dead = waiter_name(owner_token("gone/1/main"), "station")
            raw(masters1.urls[0]).zadd(queue("x"), {dead: 1})
            lock.release()
            assert holder.status("x").holder is None, "it was handed to the dead one"


@pytest.mark.parametrize("hold_s", [0.002, 0.03])
def test_hand_offs_are_counted_as_they_happen(any_server: AnyMaster, hold_s: float) -> None:
    urls = [any_server.url]
    with rlock.Client(urls) as client, Scan(client) as scan, contention(urls, "x", 3, hold_s) as turns:
        assert scan.look().hand_offs_per_second is None
        assert eventually(lambda: scan._hand_offs is not None and scan._hand_offs.since)
        scan.look()
        began, had = time.monotonic(), len(turns)
        time.sleep(1.5)
        rate = scan.look().hand_offs_per_second
        real = (len(turns) - had) / (time.monotonic() - began)
    assert real > 5
    assert rate == pytest.approx(real, rel=0.15)


def test_acquires_that_nobody_waited_for_are_no_hand_offs(masters1: Fleet) -> None:
    with rlock.Client(masters1.urls) as client, Scan(client) as scan:
        scan.look()
        assert eventually(lambda: scan._hand_offs is not None and scan._hand_offs.since)
        scan.look()
        for _ in range(20):
            with client.lock("x"):
                pass
        assert scan.look().hand_offs_per_second == 0.0


def test_where_changes_are_not_told_changes_of_holder_are_counted(masters1: Fleet) -> None:
    raw(masters1.urls[0]).execute_command(
        "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"
    )
    url = masters1.urls[0].replace("redis://", "redis://poor:pw@")
    with rlock.Client([url], restart_guard=0) as client, Scan(client) as scan:
        key = raw(masters1.urls[0])
        for _ in range(3):
            key.delete("lock")
            key.hset("lock", mapping={owner_token("web/1/main"): 1})
            snapshot = scan.look()
            time.sleep(0.1)
        assert scan._hand_offs is not None
        assert scan._hand_offs.since is None
        assert snapshot.hand_offs_per_second is not None
        assert 2 < snapshot.hand_offs_per_second < 10
