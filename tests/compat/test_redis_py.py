"""`rlock.compat.redis_py`: redis-py's own tests of its lock, and the points in which ours differs."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.exceptions

import rlock
import rlock.asyncio
from rlock.compat import redis_py, redis_py_base
from rlock.procedures.port import Request, WaitGenerator
from rlock.rules.holds import Hold
from rlock.rules.quorum import Ballot

from ..cli.shell import done
from ..interrupts import every_line
from ..servers import Fleet

#: Versions 6.4.0 and 7.0.1 have the same tests; those of 8 count the pauses of redis-py's own loop.
SDIST = "redis==7.0.1"
READS_THE_VALUE = "it reads the key as a string that holds the token; ours is a hash of owners"
EXCLUDED = dict.fromkeys(
    ("test_lock", "test_lock_token", "test_lock_token_thread_local_false", "test_context_manager"),
    READS_THE_VALUE,
)
INI = (
    "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nmarkers = onlynoncluster\n"
)


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
    ("masters", "source", "world", "passed"),
    [
        (3, "test_lock.py", "redis_py_world.py", 28),
        (1, "test_asyncio/test_lock.py", "redis_py_asyncio_world.py", 25),
    ],
    ids=["threads", "tasks"],
)
def test_the_tests_of_redis_py_pass(
    real_masters: Fleet, tmp_path: Path, sdist: Path, masters: int, source: str, world: str, passed: int
) -> None:
    shutil.copy(Path(__file__).with_name(world), tmp_path / "conftest.py")
    text = (sdist / source).read_text()
    (tmp_path / "test_lock.py").write_text(text.replace("from .conftest import", "from conftest import"))
    (tmp_path / "pytest.ini").write_text(INI)
    named = {"RLOCK_COMPAT_URLS": real_masters(masters).urls, "RLOCK_COMPAT_EXCLUDED": EXCLUDED}
    environment = {**os.environ, **{variable: " ".join(words) for variable, words in named.items()}}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = done(command, cwd=tmp_path, env=environment, timeout=110)
    assert ran.code == 0, ran.out[-6000:] + ran.err[-2000:]
    assert f"{passed} passed" in ran.out


@pytest.fixture
def client(masters1: Fleet) -> Iterator[rlock.Client]:
    with rlock.Client(masters1.urls, ttl=2, max_ttl=5, restart_guard=0) as client:
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
        raised: list[Exception] = []
        held.acquire()

        def release(held: redis_py.Lock = held, raised: list[Exception] = raised) -> None:
            try:
                held.release()
            except redis.exceptions.LockError as error:
                raised.append(error)

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert bool(raised) == held.owned() == thread_local
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


def test_a_timeout_over_max_ttl_is_renewed_for_so_long(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=60)
    assert (hold.options.renew, hold.options.max_hold, hold.lease.ttl) == (True, 60, 2)
    assert held.extend(30)
    assert 80 < (hold.options.max_hold or 0.0) <= 90
    held.release()


def test_a_fixed_lease_that_is_extended_over_max_ttl_is_renewed(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=4)
    before = hold.lease.valid_until
    assert held.extend(3600)
    # Its renewals must not end before the lease that was promised.
    assert hold.options.renew
    assert hold.lease.valid_until >= before
    assert hold.lease.ttl > 3.5
    assert hold.renewal.due_at < before
    held.release()


def test_a_lease_that_is_nearly_over_becomes_a_renewed_one_of_full_length(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=4)
    hold.lease.valid_until -= 3.5
    assert held.extend(3600)
    assert hold.lease.ttl == 4
    held.release()


def test_a_renewed_lease_is_not_prolonged_by_the_timeout_of_another_lock(client: rlock.Client) -> None:
    held, other = lock(client), lock(client, timeout=5)
    held.acquire()
    other.local.token = held.local.token
    assert other.reacquire()
    (hold,) = client._engine().holds
    # The next renewal tells the masters 2 s.
    assert client._engine().holds.remaining(hold) <= 2
    assert 4.9 < (hold.options.max_hold or 0.0) < 6
    held.release()


def test_a_shorter_extension_that_is_sent_late_leaves_no_belief_in_a_longer_one(
    client: rlock.Client, masters1: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, hold = acquired(client, timeout=2)
    engine = client._engine()
    call = engine.masters.call

    def late(request: Request) -> WaitGenerator[Ballot]:
        monkeypatch.setattr(engine.masters, "call", call)
        assert held.extend(5, replace_ttl=True)
        return (yield from call(request))

    monkeypatch.setattr(engine.masters, "call", late)
    assert held.reacquire()
    with redis.Redis.from_url(masters1.urls[0]) as raw:
        left = engine.holds.remaining(hold)
        assert left * 1000 <= raw.pttl("x") + 1
    assert redis_py_base.EXTENSIONS[hold.renewal].under_way == []
    held.release()


def test_a_renewed_lease_is_extended_from_its_end_and_never_shortened(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=60)
    for seconds, replaced in ((1, True), (-30, False), (-90, False)):
        assert held.extend(seconds, replace_ttl=replaced)
        assert hold.options.max_hold == 60
    hold.options = replace(hold.options, max_hold=1e-9)  # its time is over, its last lease is not
    assert held.extend(3)
    assert hold.acquired_at + (hold.options.max_hold or 0.0) > hold.lease.valid_until + 3
    held.release()


def test_a_lease_that_is_extended_at_its_end_is_renewed_for_the_ttl(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=0.4)
    assert held.extend(3600)
    assert hold.lease.ttl == pytest.approx(2)
    held.release()


def test_a_shorter_lease_is_not_given_to_the_masters(client: rlock.Client, masters1: Fleet) -> None:
    held = lock(client, timeout=5)
    held.acquire()
    assert held.extend(0.5, replace_ttl=True)
    with redis.Redis.from_url(masters1.urls[0]) as raw:
        assert raw.pttl("x") > 4000
    held.release()


def test_the_errors_are_those_of_both_packages(client: rlock.Client, masters1: Fleet) -> None:
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


def test_the_hold_of_a_collected_lock_is_not_renewed(client: rlock.Client) -> None:
    lock(client).acquire()
    (hold,) = client._engine().holds
    assert hold.renewal_stop(0.0) is not None


def test_a_lost_hold_of_a_collected_lock_is_dropped(client: rlock.Client) -> None:
    held, hold = acquired(client, timeout=4)
    engine = client._engine()
    engine.watchdog.report_loss(hold, "a test")
    assert hold in engine.holds, "its owner can still be told"
    del held
    assert len(engine.holds) == 0


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
