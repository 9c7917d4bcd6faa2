"""Keys that somebody else has written on real masters: no call and no command ends in a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlock
from rlock.rules import keys
from rlock.rules.keys import owner_token

from ..servers import Fleet, raw
from .shell import inside as run

OWNER = owner_token("host/1/main")


def queue(name: str, score: str, member: str | bytes) -> tuple[Any, ...]:
    return "ZADD", keys.queue(name), score, member


#: Keys that a master has in the place of a lock.
HOSTILE: dict[str, Callable[[str], tuple[Any, ...]]] = {
    "a place at infinity": lambda name: queue(name, "inf", "y"),
    "a place that no integer holds": lambda name: queue(name, "1e300", f"{OWNER}|s"),
    "a field that is no owner": lambda name: ("HSET", name, "user:1", "1"),
}


def put(masters: Fleet, command: tuple[Any, ...], count: int = 3) -> None:
    for url in masters.urls[:count]:
        with raw(url) as server:
            server.execute_command(*command)


def test_a_place_that_no_waiter_took_costs_those_who_wait_nothing(masters3: Fleet) -> None:
    for kind in ("a place at infinity", "a place that no integer holds"):
        put(masters3, HOSTILE[kind]("x"), 1)
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        assert client.status("x").waiters == ()
        for _ in range(3):
            with client.lock("x"):
                assert not other.lock("x").acquire(timeout=0.05)
            with other.lock("x", fair=True):
                pass


def test_a_hash_that_no_lock_wrote_is_neither_evicted_nor_waited_for_nor_listed(masters3: Fleet) -> None:
    """One field with a number in it is what a counter of somebody's looks like, too."""
    field = HOSTILE["a field that is no owner"]("cart")
    put(masters3, field)
    with rlock.Client(masters3.urls) as client:
        for call in (
            lambda: client.evict("cart"),
            lambda: client.status("cart"),
            lambda: client.lock("cart").locked(),
            lambda: client.lock("cart").acquire(timeout=1.0),
        ):
            with pytest.raises(rlock.OptionsError, match="something that no lock wrote"):
                call()
    found = run("evict", "--yes", "cart", masters=masters3.urls)
    assert found.code == 64
    assert run("list", "--json", masters=masters3.urls).out.count("cart") == 0
    for url in masters3.urls:
        with raw(url) as server:
            assert server.hgetall("cart") == {"user:1": "1"}


def test_on_a_minority_a_hash_that_no_lock_wrote_survives_an_eviction(masters3: Fleet) -> None:
    put(masters3, HOSTILE["a field that is no owner"]("x"), 1)
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as operator:
        lock = client.lock("x")
        assert lock.acquire(timeout=5.0)
        assert len(operator.evict("x")) == 1
        with raw(masters3.urls[0]) as server:
            assert server.hgetall("x") == {"user:1": "1"}
        assert lock.lost.wait(5.0)
