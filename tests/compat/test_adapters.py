"""The locks of other packages, on a quorum by the one line that docs/howto names."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import rlock
from rlock.compat import redis_py

from ..cli.shell import done
from ..servers import Fleet

pytestmark = pytest.mark.slow


@pytest.fixture
def client(masters3: Fleet) -> Iterator[rlock.Client]:
    with rlock.Client(masters3.urls, restart_guard=0) as client:
        yield client


@pytest.fixture
def locking(client: rlock.Client, masters3: Fleet) -> Iterator[Any]:
    """A connection whose locks are ours."""
    with redis.Redis.from_url(masters3.urls[0], decode_responses=True) as connection:
        connection.lock = partial(connection.lock, lock_class=redis_py.lock_class(client))
        yield connection


DJANGO = """
import os
from django.conf import settings

options = {
    "CLIENT_CLASS": "rlock.compat.django_redis.Client",
    "RLOCK": {"masters": os.environ["URLS"].split(), "restart_guard": 0},
}
url = os.environ["URLS"].split()[0]
cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url, "OPTIONS": options}
settings.configure(CACHES={"default": cache})

from django.core.cache import cache

with cache.lock("report", timeout=5) as held:
    assert cache.lock("report", blocking=False).acquire() is False
    print(held.owned(), held.name, cache.set("x", 1), cache.get("x"))
print(held.locked())
"""


def test_cache_lock_of_django_redis_is_on_the_quorum_by_settings_alone(masters3: Fleet) -> None:
    masters3[2].pause()  # one dead master that nobody notices
    try:
        ran = done([sys.executable, "-c", DJANGO], env={**os.environ, "URLS": " ".join(masters3.urls)})
    finally:
        masters3[2].resume()
    assert ran.out.split() == ["True", ":1:report", "True", "1", "False"], ran.err


def test_the_scheduler_of_redbeat_holds_and_extends_it(client: rlock.Client, locking: Any) -> None:
    schedulers = pytest.importorskip("redbeat.schedulers")
    celery = pytest.importorskip("celery")
    app = celery.Celery(broker="memory://")
    app.conf.update(redbeat_redis_url="redis://unused", redbeat_lock_timeout=60)
    app.redbeat_redis = locking
    scheduler = SimpleNamespace(app=app, lock_key="redbeat::lock", lock_timeout=60, max_interval=0.1)
    schedulers.acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
    assert client.status("redbeat::lock").locked
    assert scheduler.lock.extend(60)
    scheduler.lock.release()
    assert client.status("redbeat::lock").free


def test_a_region_of_dogpile_regenerates_under_the_quorum(client: rlock.Client, locking: Any) -> None:
    dogpile = pytest.importorskip("dogpile.cache")
    region = dogpile.make_region().configure(
        "dogpile.cache.redis", arguments={"distributed_lock": True, "thread_local_lock": False}
    )
    region.backend.writer_client.lock = locking.lock
    mutex = region.backend.get_mutex("user:1")
    assert mutex.acquire(False)
    assert mutex.locked()
    assert not region.backend.get_mutex("user:1").acquire(False)
    assert client.status("_lockuser:1").locked
    mutex.release()
    assert client.status("_lockuser:1").free


def test_tooz_locks_on_the_quorum_and_keeps_its_groups_where_they_were(masters3: Fleet) -> None:
    coordination = pytest.importorskip("tooz.coordination")
    url = f"{masters3.urls[0].replace('redis:', 'rlock:')}?masters={','.join(masters3.urls)}"
    with rlock.Client(masters3.urls) as client:
        client.init()
        ours, theirs = (coordination.get_coordinator(url, member) for member in (b"a", b"b"))
        for coordinator in (ours, theirs):
            coordinator.start()
        ours.join_group_create(b"workers")
        assert theirs.get_members(b"workers").get() == {b"a"}
        lock, other = ours.get_lock(b"report"), theirs.get_lock(b"report")
        with lock:
            ours.heartbeat()
            assert lock.acquired
            assert lock.is_still_owner()
            assert client.status("_tooz_report_lock").locked
            assert not lock.acquire(blocking=False)
            assert not other.acquire(timeout=0.05)
            assert other.break_()
        assert not lock.release()
        assert other.acquire(blocking=False)
        masters3(2).pause()
        try:
            with pytest.raises(coordination.ToozConnectionError):
                lock.acquire(blocking=False)
        finally:
            masters3.resume()
        theirs.stop()
        assert client.status("_tooz_report_lock").free, "stop() releases, as there"
        ours.stop()


def test_redis_lock_of_portalocker(client: rlock.Client) -> None:
    portalocker = pytest.importorskip("portalocker")
    from rlock.compat.portalocker import lock_class

    told: list[object] = []
    lock_type = lock_class(client)
    lock = lock_type("report", timeout=0.05, on_lost=told.append)
    lock.ensure_held()
    with lock as held:
        assert held is lock
        assert client.status("report").locked
        with pytest.raises(portalocker.LockException, match="already active"):
            lock.acquire()
        with pytest.raises(portalocker.AlreadyLocked):
            lock_type("report", fail_when_locked=True).acquire()
        with pytest.raises(portalocker.AlreadyLocked):
            lock_type("report").acquire(timeout=0, check_interval=1)
        first = lock.fence_token
    lock.release()  # a second one does no harm
    assert not lock.lost
    with pytest.raises(portalocker.exceptions.LockLostError), lock:
        assert (lock.fence_token or 0) > (first or 0) > 0
        client.evict("report")
        while not told:
            time.sleep(0.01)  # until the renewal is refused
        assert lock.lost
    assert told == [lock]
    with pytest.raises(portalocker.exceptions.LockLostError):
        lock.ensure_held()
