"""Redisson's other locks of the same name: what they write beside the hash, and what rlock makes of it."""

from __future__ import annotations

import time

import pytest

import rlock

from ..servers import AnyMaster, raw
from .conftest import MakeJava, MakePython

#: Kinds that are the same hash, and what else they have on the master while one holds and one waits.
SAME = {
    "fair": {"redisson_lock_queue:{x}": "list", "redisson_lock_timeout:{x}": "zset"},
    "fenced": {"redisson_lock_token:{x}": "string"},
    "spin": {},
}


@pytest.mark.parametrize("kind", SAME)
def test_rlock_and_a_lock_of_this_kind_exclude_each_other(
    master: AnyMaster, java: MakeJava, python: MakePython, kind: str
) -> None:
    client = python([master.url])
    lock = client.lock("x")
    redissons = java([master.url], watchdog_ms=10_000)
    thread, other = redissons.thread("one"), redissons.thread("other")
    thread.lock("x", kind=kind)
    assert raw(master.url).hgetall("x") == {thread.owners[0]: "1"}
    assert client.status("x").holder == thread.owners[0]
    assert not lock.acquire(timeout=0.2)
    waiter = other.begin("lock", "x", kind=kind)
    server = raw(master.url)
    deadline = time.monotonic() + 5.0
    while not SAME[kind].keys() <= {*server.keys()} and time.monotonic() < deadline:
        time.sleep(0.02)
    assert {key: server.type(key) for key in SAME[kind]} == SAME[kind]
    thread.unlock("x", kind=kind)
    waiter.result(10.0)
    assert not lock.acquire(blocking=False)
    other.unlock("x", kind=kind)
    assert lock.acquire(timeout=10.0)
    assert not thread.trylock("x", kind=kind)
    assert not thread.trylock("x", kind=kind, wait_ms=200)
    lock.release()
    # A place in Java's fair queue that a refused trylock has left is taken away by the next who comes.
    assert thread.trylock("x", kind=kind, wait_ms=10_000)
    thread.unlock("x", kind=kind)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_read_write_lock_of_java_is_an_error_that_says_so(
    master: AnyMaster, java: MakeJava, python: MakePython, kind: str
) -> None:
    client = python([master.url])
    lock = client.lock("x")
    thread = java([master.url]).thread()
    thread.lock("x", kind=kind)
    held = raw(master.url).hgetall("x")
    assert held["mode"] == kind
    for call in (
        lambda: lock.acquire(blocking=False),
        lambda: lock.acquire(timeout=1.0),
        lock.locked,
        lambda: client.status("x"),
        lambda: client.evict("x"),
    ):
        with pytest.raises(rlock.OptionsError, match="the key holds something that no lock wrote"):
            call()
    assert raw(master.url).hgetall("x") == held
    thread.unlock("x", kind=kind)
    assert lock.acquire(timeout=10.0), "with Java's key the error goes"
    lock.release()
