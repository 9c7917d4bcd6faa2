"""Leases across the two: Java's watchdog, Java killed and stopped, Java's forceUnlock on a hold of rlock."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import rlock

from ..servers import Fleet, raw
from .conftest import MakeJava, MakeJvm, MakePython
from .jvm import JavaError

EVERY_WAY = True
#: Of Java, renewed each third of it.
LEASE_MS = 1500
#: What a busy machine may add.
LATE_S = 8.0


def eventually(what: Callable[[], object], within: float = LATE_S) -> bool:
    until = time.monotonic() + within
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def holders(fleet: Fleet) -> list[list[str]]:
    return [[str(owner) for owner in raw(url).hkeys("x")] for url in fleet.urls]


def test_a_killed_java_process_frees_the_lock_within_its_lease(
    masters3: Fleet, fresh_jvm: MakeJvm, python: MakePython
) -> None:
    jvm = fresh_jvm()
    jvm.client(masters3.urls, watchdog_ms=LEASE_MS).thread().lock("x")
    lock = python(masters3.urls).lock("x")
    assert not lock.acquire(timeout=2 * LEASE_MS / 1000), "its watchdog works"
    jvm.kill()
    killed = time.monotonic()
    assert lock.acquire(timeout=LEASE_MS / 1000 + LATE_S)
    assert time.monotonic() - killed < LEASE_MS / 1000 + LATE_S
    lock.release()


def test_a_stopped_java_process_takes_nothing_back_when_it_goes_on(
    masters1: Fleet, fresh_jvm: MakeJvm, python: MakePython
) -> None:
    jvm = fresh_jvm()
    thread = jvm.client(masters1.urls, watchdog_ms=LEASE_MS).thread()
    thread.lock("x")
    jvm.pause()
    lock = python(masters1.urls).lock("x")
    assert lock.acquire(timeout=LEASE_MS / 1000 + LATE_S)
    held = holders(masters1)
    jvm.resume()
    # Its watchdog and then its unlock: both find that it is not theirs any more.
    time.sleep(LEASE_MS / 1000)
    with pytest.raises(JavaError, match="IllegalMonitorStateException"):
        thread.unlock("x")
    assert holders(masters1) == held
    assert lock.is_owned()
    lock.release()


def test_a_force_of_java_is_a_loss_for_one_who_shares_the_lock_and_a_gap_for_one_who_does_not(
    masters3: Fleet, java: MakeJava, python: MakePython
) -> None:
    client = python(masters3.urls, ttl=3.0)
    lock = client.lock("x")
    thread = java(masters3.urls).thread()
    assert lock.acquire()
    held = holders(masters3)
    assert all(held)
    assert thread.force("x") == [True] * 3
    assert holders(masters3) == [[]] * 3
    if client._options.interop:
        assert lock.lost.wait(LATE_S)
        assert holders(masters3) == [[]] * 3, "it was forced, and stays free"
        with pytest.raises(rlock.LeaseLostError):
            lock.release()
        return
    assert eventually(lambda: holders(masters3) == held), (
        "its watchdog puts it back within a third of the ttl"
    )
    assert lock.is_owned()
    assert not lock.lost.is_set()
    assert not thread.trylock("x")
    lock.release()
    assert holders(masters3) == [[]] * 3
