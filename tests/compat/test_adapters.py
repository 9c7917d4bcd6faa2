"""The locks of other packages, on a quorum by the one line that docs/howto/redis-py.md names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import rlock
from rlock.compat import redis_py

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
    environment = {**os.environ, "URLS": " ".join(masters3.urls)}
    masters3[2].pause()  # one dead master that nobody notices
    try:
        ran = subprocess.run(
            [sys.executable, "-c", DJANGO], env=environment, capture_output=True, text=True, timeout=60
        )
    finally:
        masters3[2].resume()
    assert ran.stdout.split() == ["True", ":1:report", "True", "1", "False"], ran.stderr


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
