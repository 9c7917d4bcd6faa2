"""Masters in memory: faults, sharing, costs. A hold that is lost when a test wants it."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlock
from rlock.testing import MemoryMasters, lose, memory_client, use

from ..lock.conftest import eventually, in_thread
from ..lock.test_lifecycle import forked
from ..servers import Fleet


@pytest.fixture
def fleet() -> MemoryMasters:
    return MemoryMasters(3)


@pytest.fixture
def client(fleet: MemoryMasters) -> Iterator[rlock.Client]:
    with memory_client(masters=fleet) as client:
        yield client


@pytest.fixture(params=["eventfd", "pipe"])
def any_bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def rlock_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rlock")]


def test_a_client_is_made_of_them_as_of_urls(fleet: MemoryMasters) -> None:
    with rlock.Client(fleet.masters, ttl=2.0) as client:
        assert client.masters == [master.label for master in fleet]
        with client.lock("x"):
            pass
    with rlock.Client(fleet[0]) as client, client.lock("x"):
        pass
    with pytest.raises(rlock.OptionsError, match="twice"):
        rlock.Client([fleet[0], fleet[0]])
    with pytest.raises(rlock.OptionsError, match="at least one"):
        MemoryMasters(0)


@pytest.mark.usefixtures("any_bell")
def test_closed_and_dropped_clients_leave_nothing(fleet: MemoryMasters) -> None:
    def use(client: rlock.Client) -> rlock.Client:
        with client.lock("x"):
            assert in_thread(lambda: client.lock("x").acquire(timeout=0.05)) is False
        return client

    use(memory_client(masters=fleet)).close()
    gc.collect()
    before = descriptors()
    for _ in range(5):
        use(memory_client(masters=fleet)).close()
    assert descriptors() == before
    for _ in range(5):
        use(memory_client(masters=fleet))
    assert eventually(lambda: not rlock_threads())
    gc.collect()
    assert eventually(lambda: descriptors() == before), (before, descriptors())
    assert [len(master._connections_by_id) for master in fleet] == [0] * len(fleet)
    use(memory_client(masters=fleet)).close()
    assert [master._keys.subscribers for master in fleet] == [{}] * len(fleet)


def test_a_forked_child_has_a_copy(fleet: MemoryMasters, client: rlock.Client) -> None:
    lock = client.lock("x")
    lock.acquire()
    assert forked(lambda: client.lock("x").acquire(blocking=False)) == "False"
    assert forked(lambda: client.lock("y").acquire(blocking=False)) == "True"
    assert client.lock("y").acquire(blocking=False), "nothing came back from there"
    lock.check()


@pytest.fixture(params=["memory", "real"])
def any_client(request: pytest.FixtureRequest) -> Iterator[rlock.Client]:
    if request.param == "memory":
        made = memory_client(3)
    else:
        masters: Fleet = request.getfixturevalue("masters3")
        made = rlock.Client(masters.urls)
    with made:
        yield made


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "fixed"])
def test_a_hold_is_lost_at_once_and_everything_says_so(any_client: rlock.Client, renew: bool) -> None:
    told: list[rlock.LeaseLostError] = []
    lock = any_client.lock("x", renew=renew, on_lost=told.append)
    lock.acquire()
    lost, began = lock.lost, time.monotonic()
    lose(lock)
    # A third of the ttl is 3.3 s.
    assert time.monotonic() - began < 1.0
    assert lost.is_set()
    assert not lock.is_owned()
    assert eventually(lambda: told, within=1.0)
    with pytest.raises(rlock.LeaseLostError, match="evicted"):
        lock.check()
    with pytest.raises(rlock.LeaseLostError):
        lock.release()
    assert len(told) == 1
    assert lock.acquire(timeout=1)
    lock.release()


def test_without_a_quorum_nothing_is_lost() -> None:
    fleet = MemoryMasters(3)
    with memory_client(masters=fleet) as client:
        lock = client.lock("x")
        lock.acquire()
        fleet[0].down()
        fleet[1].down()
        with pytest.raises(rlock.QuorumUnreachableError):
            lose(lock)
        lock.check()


def test_decorated_functions_use_another_client_for_as_long_as_they_are_told() -> None:
    def never() -> rlock.Client:
        raise AssertionError("it is not called")

    with memory_client() as first, memory_client() as second, memory_client() as third:
        made = rlock.locked(never, "x", blocking=False)(lambda: "done")
        given = rlock.locked(first, "x", blocking=False)(lambda: "done")
        in_thread(lambda: second.lock("x").acquire())
        with use(never, first):
            assert made() == "done"
            with use(never, second), use(first, third):
                assert made() is None
                assert given() == "done"
            assert made() == "done"
        in_thread(lambda: first.lock("x").acquire())
        assert given() is None
        with pytest.raises(AssertionError, match="not called"):
            made()
