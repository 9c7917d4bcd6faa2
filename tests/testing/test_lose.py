"""A hold that is lost when a test wants it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import rlock
from rlock.testing import MemoryMasters, lose, memory_client, use

from ..lock.conftest import eventually, in_thread
from ..servers import Fleet


@pytest.fixture(params=["memory", "real"])
def client(request: pytest.FixtureRequest) -> Iterator[rlock.Client]:
    if request.param == "memory":
        made = memory_client(3)
    else:
        masters: Fleet = request.getfixturevalue("masters3")
        made = rlock.Client(masters.urls)
    with made:
        yield made


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "fixed"])
def test_a_hold_is_lost_at_once_and_everything_says_so(client: rlock.Client, renew: bool) -> None:
    told: list[rlock.LeaseLostError] = []
    lock = client.lock("x", renew=renew, on_lost=told.append)
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
