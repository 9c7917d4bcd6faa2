"""`rlock.compat`: redis-py's own tests of its lock, and where ours differs; other packages' locks."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.exceptions

import rlock
import rlock.asyncio
from rlock.compat import redis_py
from rlock.rules.holds import Hold

from ..cli.shell import done
from ..interrupts import every_line
from ..lock.conftest import in_thread
from ..servers import Fleet

#: Versions 6.4.0 and 7.0.1 have the same tests; those of 8 count the pauses of redis-py's own loop.
SDIST = "redis==7.0.1"
#: They read the key as a string that holds the token; ours is a hash of owners.
EXCLUDED = ("test_lock", "test_lock_token", "test_lock_token_thread_local_false", "test_context_manager")
INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nmarkers = onlynoncluster"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of redis-py, from the package index."""
    folder = tmp_path_factory.mktemp("sdist")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-binary=:all:")
    fetch = [sys.executable, "-m", "pip", "download", *options, SDIST]
    fetched = subprocess.run(fetch, cwd=folder, capture_output=True, text=True, timeout=110)
    if fetched.returncode:
        pytest.skip(f"{SDIST} could not be fetched from the package index: {fetched.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("redis-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("redis-*/tests"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("masters", "source", "kind", "passed"),
    [(3, "test_lock.py", {}, 28), (1, "test_asyncio/test_lock.py", {"RLOCK_COMPAT_TASKS": "yes"}, 25)],
    ids=["threads", "tasks"],
)
def test_the_tests_of_redis_py_pass(
    real_masters: Fleet,
    tmp_path: Path,
    sdist: Path,
    masters: int,
    source: str,
    kind: dict[str, str],
    passed: int,
) -> None:
    shutil.copy(Path(__file__).with_name("redis_py_world.py"), tmp_path / "conftest.py")
    text = (sdist / source).read_text()
    (tmp_path / "test_lock.py").write_text(text.replace("from .conftest import", "from conftest import"))
    (tmp_path / "pytest.ini").write_text(INI)
    named = {"RLOCK_COMPAT_URLS": real_masters(masters).urls, "RLOCK_COMPAT_EXCLUDED": EXCLUDED}
    environment = {**os.environ, **kind, **{variable: " ".join(words) for variable, words in named.items()}}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = done(command, cwd=tmp_path, env=environment, timeout=110)
    assert ran.code == 0, ran.out[-6000:] + ran.err[-2000:]
    assert f"{passed} passed" in ran.out


@pytest.fixture
def client(masters3: Fleet) -> Iterator[rlock.Client]:
    with rlock.Client(masters3.urls, ttl=2, max_ttl=5, restart_guard=0) as client:
        yield client


def lock(client: rlock.Client, **options: Any) -> redis_py.Lock:
    made: redis_py.Lock = redis.Redis().lock("x", lock_class=redis_py.lock_class(client), **options)
    return made


def acquired(client: rlock.Client, **options: Any) -> tuple[redis_py.Lock, Hold]:
    held = lock(client, **options)
    held.acquire()
    (hold,) = client._engine().holds
    return held, hold


def test_one_thread_does_not_enter_twice(client: rlock.Client) -> None:
    with lock(client) as first:
        assert not first.acquire(blocking=False)
        assert not lock(client).acquire(blocking=False)
        assert not client.lock("x").acquire(blocking=False)
    assert not first.locked()


def test_another_thread_releases_only_without_thread_local(client: rlock.Client) -> None:
    for thread_local in (True, False):
        held = lock(client, thread_local=thread_local)
        held.acquire()
        with pytest.raises(redis.exceptions.LockError) if thread_local else nullcontext():
            in_thread(held.release)
        assert held.owned() == thread_local
        if thread_local:
            held.release()
    assert not held.locked()


def test_another_lock_of_the_process_releases_by_the_token(client: rlock.Client) -> None:
    held, other = lock(client), lock(client)
    held.acquire()
    other.local.token = held.local.token
    other.release()
    assert not held.owned()
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        held.release()


@pytest.mark.parametrize(("timeout", "ttl"), [(4, 4), (0.4, 2)], ids=["early", "at its end"])
def test_a_lease_extended_over_max_ttl_is_renewed(client: rlock.Client, timeout: float, ttl: float) -> None:
    held, hold = acquired(client, timeout=timeout)
    before = hold.lease.valid_until
    assert held.extend(3600)
    # Its renewals must not end before the lease that was promised.
    assert hold.options.renew
    assert hold.lease.valid_until >= before
    assert hold.lease.ttl == pytest.approx(ttl, abs=0.5)
    assert hold.renewal.due_at < before
    held.release()


def test_a_timeout_over_max_ttl_is_renewed_for_it_and_extended_from_its_end(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=60)
    assert (hold.options.renew, hold.options.max_hold, hold.lease.ttl) == (True, 60, 2)
    for seconds, replaced in ((1, True), (-30, False), (-90, False)):
        assert held.extend(seconds, replace_ttl=replaced)
        assert hold.options.max_hold == 60, "it was shortened"
    assert held.extend(30)
    assert 80 < (hold.options.max_hold or 0.0) <= 90
    hold.options = replace(hold.options, max_hold=1e-9)  # its time is over, its last lease is not
    assert held.extend(3)
    assert hold.acquired_at + (hold.options.max_hold or 0.0) > hold.lease.valid_until + 3
    held.release()


def test_the_errors_are_those_of_both_packages(client: rlock.Client) -> None:
    held = lock(client, timeout=4)
    with pytest.raises(rlock.RLockError) as unheld:
        held.release()
    held.acquire()
    client.evict("x")
    with pytest.raises(rlock.LeaseLostError) as lost:
        held.extend(1)
    assert isinstance(unheld.value, redis.exceptions.LockError)
    assert isinstance(lost.value, redis.exceptions.LockNotOwnedError)
    assert unheld.value.lock_name == lost.value.lock_name == "x"
    for error in (unheld.value, lost.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.lock_name) == (type(error), str(error), "x")
        assert repr(error) == repr(again) != ""


def test_masters_that_do_not_answer_are_a_connection_error() -> None:
    with rlock.Client("redis://127.0.0.1:1", request_timeout=0.2) as client:
        with pytest.raises(redis.exceptions.ConnectionError) as error:
            lock(client).acquire(blocking_timeout=0.1)
        assert isinstance(error.value, rlock.QuorumUnreachableError)


def test_a_collected_lock_is_not_renewed_and_its_loss_is_dropped(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=4)
    engine = client._engine()
    engine.watchdog.report_loss(hold, "a test")
    assert hold in engine.holds, "its owner can still be told"
    del held
    assert len(engine.holds) == 0
    lock(client).acquire()
    (hold,) = engine.holds
    assert hold.renewal_stop(0.0) is not None


# Python ignores an interrupt in a callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_after_an_interrupt_a_release_is_complete_or_can_be_repeated(client: rlock.Client) -> None:
    held = lock(client)
    for interrupt in every_line("redis_py_base.py", "redis_py.py", least=5):
        held.acquire()
        with interrupt:
            held.release()
        if held.owned():
            held.release()
        assert not client._engine().holds
        assert not held.locked()


def test_a_lock_class_belongs_to_a_client_of_rlock() -> None:
    with pytest.raises(rlock.OptionsError, match=r"rlock\.Client"):
        redis_py.lock_class(redis.Redis())  # type: ignore[call-overload]


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


@pytest.mark.slow
def test_cache_lock_of_django_redis_is_on_the_quorum_by_settings_alone(masters3: Fleet) -> None:
    masters3[2].pause()  # one dead master that nobody notices
    try:
        ran = done([sys.executable, "-c", DJANGO], env={**os.environ, "URLS": " ".join(masters3.urls)})
    finally:
        masters3[2].resume()
    assert ran.out.split() == ["True", ":1:report", "True", "1", "False"], ran.err


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_region_of_dogpile_regenerates_under_the_quorum(client: rlock.Client, locking: Any) -> None:
    dogpile = pytest.importorskip("dogpile.cache")
    how = {"distributed_lock": True, "thread_local_lock": False}
    region = dogpile.make_region().configure("dogpile.cache.redis", arguments=how)
    region.backend.writer_client.lock = locking.lock
    mutex = region.backend.get_mutex("user:1")
    assert mutex.acquire(False)
    assert mutex.locked()
    assert not region.backend.get_mutex("user:1").acquire(False)
    assert client.status("_lockuser:1").locked
    mutex.release()
    assert client.status("_lockuser:1").free


@pytest.mark.slow
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
        lock, other = ours.get_lock(b"report\xff"), theirs.get_lock(b"report\xff")
        with lock:
            ours.heartbeat()
            assert lock.acquired
            assert lock.is_still_owner()
            assert client.status(r"_tooz_report\xff_lock").locked
            assert not lock.acquire(blocking=False)
            assert not other.acquire(timeout=0.05)
            assert other.break_()
        assert not lock.release()
        assert other.acquire(blocking=False)
        masters3(2).pause()
        try:
            for ask in (lambda: lock.acquire(blocking=False), other.break_):
                with pytest.raises(coordination.ToozConnectionError):
                    ask()
        finally:
            masters3.resume()
        theirs.stop()
        assert client.status(r"_tooz_report\xff_lock").free, "stop() releases, as there"
        ours.stop()


@pytest.mark.slow
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
