"""Redisson's RedissonRedLock on three masters, and rlock on the same three.

Java is another owner on each master: one RedissonClient, and so one uuid, for each.
"""

from __future__ import annotations

from ..conftest import FreshMasters
from ..servers import Fleet, raw
from .conftest import MakeJava, MakePython

LEASE_MS = 10_000
#: So that a master that is gone costs Java a second and not a minute.
QUICK = {"timeout_ms": 500, "connect_ms": 500, "retries": 1, "retry_ms": 100}


def test_java_is_another_owner_on_each_master(masters3: Fleet, java: MakeJava, python: MakePython) -> None:
    client = java(masters3.urls, watchdog_ms=LEASE_MS)
    thread = client.thread()
    thread.lock("x")
    assert len({*thread.owners}) == 3
    assert [raw(url).hgetall("x") for url in masters3.urls] == [{owner: "1"} for owner in thread.owners]
    views = python(masters3.urls).status("x").masters
    assert [view.holder for view in views] == [*thread.owners]
    assert all(view.remaining and 0 < view.remaining <= client.lease_ms / 1000 for view in views)
    thread.unlock("x")


def test_java_does_not_get_two_of_three_from_under_rlock(
    fresh_masters: FreshMasters, java: MakeJava, python: MakePython
) -> None:
    fleet = fresh_masters(3)
    client = python(fleet.urls)
    fleet[2].kill()
    lock = client.lock("x")
    assert lock.acquire(timeout=10.0)
    fleet[2].start()  # empty: the vote that Java gets there is one of three
    thread = java(fleet.urls, **QUICK).thread()
    assert not thread.trylock("x")
    assert not thread.trylock("x", wait_ms=1500)
    assert lock.is_owned()
    lock.release()
