"""What docs/howto/migrating.md says of the other libraries, run with those that are installed."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

import rlock

from ..conftest import FreshMasters
from ..contract.conftest import eventually, in_thread
from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, raw
from .migrating import PACKAGES, blocks, run, section, text
from .test_howto_migrating import peer


def in_another(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that is at work, and where its result will be."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(work()))
    thread.start()
    return thread, result


# -- the tables ----------------------------------------------------------------------------------------------

#: Heading, module, what is called; and the arguments that are the same, or are what the method is about.
CALLS = [
    ("redis-py", "redis", "lock.Lock", "redis name"),
    ("redis-py", "redis", "lock.Lock.acquire", ""),
    ("redis-py", "redis", "lock.Lock.extend", "additional_time replace_ttl"),
    ("pottery", "pottery", "Redlock", ""),
    ("pottery", "pottery", "Redlock.acquire", "blocking timeout raise_on_redis_errors"),
    ("pottery", "pottery", "synchronize", "key masters blocking timeout raise_on_redis_errors"),
    ("python-redis-lock", "redis_lock", "Lock", ""),
    ("python-redis-lock", "redis_lock", "Lock.acquire", ""),
    ("redlock-plus", "redlock_plus", "Lock", ""),
    ("redlock-plus", "redlock_plus", "RLock.acquire", ""),
    ("redlock-plus", "redlock_plus", "LockFactory", "lock_class kwargs"),
]


def words(part: str) -> set[str]:
    """The words of the code in a section, in lines and in blocks."""
    code = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    return {*re.findall(r"\w+", " ".join(code + re.findall(r"`([^`\n]+)`", part)))}


@pytest.mark.parametrize(("heading", "module", "call", "known"), CALLS)
def test_every_argument_has_a_word_in_the_section(heading: str, module: str, call: str, known: str) -> None:
    found: Any = peer(module)
    version = importlib.metadata.version(PACKAGES[module])
    if f"{heading} {version}" not in " ".join(text().split()):
        pytest.skip(f"the page was written for another version than {version}")
    for name in call.split("."):
        found = getattr(found, name)
    named = words(section(heading))
    assert not {*inspect.signature(found).parameters} - {"self", *known.split()} - named


# -- redis-py ------------------------------------------------------------------------------------------------


def test_reacquire_of_a_redis_py_lock_without_time_deletes_it_and_says_true(masters1: Fleet) -> None:
    if importlib.metadata.version("redis") != "8.1.0":
        pytest.skip("docs/comparison.md speaks of redis-py 8.1.0")
    server = raw(masters1.urls[0])
    lock = server.lock("x", timeout=0)
    assert lock.acquire()
    assert lock.reacquire() is True
    assert not server.exists("x")


# -- pottery -------------------------------------------------------------------------------------------------


def test_pottery_says_false_when_the_masters_are_down(fresh_masters: FreshMasters) -> None:
    pottery, fleet = peer("pottery"), fresh_masters(1)
    fleet[0].kill()
    masters = {raw(fleet.urls[0])}
    assert pottery.Redlock(key="x", masters=masters).acquire(blocking=False) is False
    lock = pottery.Redlock(key="x", masters=masters, raise_on_redis_errors=True)
    with pytest.raises(pottery.exceptions.QuorumIsImpossible):
        lock.acquire(blocking=False)


@pytest.mark.parametrize("where", [lambda work: work(), in_thread], ids=["same thread", "other thread"])
def test_a_second_acquire_of_a_pottery_lock_forgets_the_first(where: Any, masters1: Fleet) -> None:
    pottery = peer("pottery")
    lock = pottery.Redlock(key="x", masters={raw(masters1.urls[0])})
    assert lock.acquire()
    assert 9 < lock.locked() < 10
    assert where(lambda: lock.acquire(blocking=False)) is False
    assert lock.locked() == 0
    with pytest.raises(pottery.exceptions.ExtendUnlockedLock):
        lock.extend()
    with pytest.raises(pottery.exceptions.ReleaseUnlockedLock):
        lock.release()
    assert raw(masters1.urls[0]).exists("redlock:x")


def test_a_pottery_lock_is_extended_three_times(masters1: Fleet) -> None:
    pottery = peer("pottery")
    lock = pottery.Redlock(key="x", masters={raw(masters1.urls[0])})
    with lock:
        for _ in range(3):
            lock.extend()
        with pytest.raises(pottery.exceptions.TooManyExtensions):
            lock.extend()


def test_with_a_time_the_with_of_pottery_raises(masters1: Fleet) -> None:
    pottery = peer("pottery")
    masters = {raw(masters1.urls[0])}
    with (
        pottery.Redlock(key="x", masters=masters),
        pytest.raises(pottery.exceptions.QuorumNotAchieved),
        pottery.Redlock(key="x", masters=masters, context_manager_timeout=0.2),
    ):
        pass
    errors = pottery.exceptions
    assert issubclass(errors.ReleaseUnlockedLock, RuntimeError)


def test_a_busy_lock_is_an_error_of_synchronize_and_of_locked_or_skips(
    masters1: Fleet, make_client: Callable[..., Any]
) -> None:
    pottery, client = peer("pottery"), make_client(masters1.urls)
    masters = {raw(masters1.urls[0])}
    theirs = pottery.synchronize(key="x", masters=masters, blocking=False)(lambda: "ran")
    with pottery.Redlock(key="x", masters=masters), pytest.raises(pottery.exceptions.QuorumNotAchieved):
        theirs()
    with make_client(masters1.urls).lock("x"):
        assert rlock.locked(client, "x", blocking=False)(lambda: "ran")() is None
        for options in ({"blocking": False, "on_busy": "raise"}, {"timeout": 0.1}):
            with pytest.raises(rlock.LockBusyError):
                rlock.locked(client, "x", **options)(lambda: "ran")()
    assert theirs() == rlock.locked(client, "x", blocking=False)(lambda: "ran")() == "ran"


# -- python-redis-lock ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 0.5])
def test_the_time_of_python_redis_lock_is_cut_to_seconds_and_0_is_for_ever(
    timeout: float, masters1: Fleet
) -> None:
    redis_lock, server = peer("redis_lock"), redis.Redis.from_url(masters1.urls[0])
    first = redis_lock.Lock(server, "x")
    first.acquire()
    thread, result = in_another(lambda: redis_lock.Lock(server, "x").acquire(timeout=timeout))
    thread.join(1.5)
    assert thread.is_alive()
    first.release()
    thread.join(30)
    assert result == [True]


def test_the_errors_and_keys_of_python_redis_lock(masters1: Fleet) -> None:
    redis_lock, server = peer("redis_lock"), redis.Redis.from_url(masters1.urls[0])
    lock = redis_lock.Lock(server, "x", expire=5)
    with lock:
        assert server.exists("lock:x")
        with pytest.raises(redis_lock.AlreadyAcquired):
            lock.acquire()
        with pytest.raises(redis_lock.TimeoutTooLarge):
            redis_lock.Lock(server, "x", expire=5).acquire(timeout=10)
    with pytest.raises(redis_lock.TimeoutNotUsable):
        lock.acquire(blocking=False, timeout=1)
    with pytest.raises(redis_lock.InvalidTimeout):
        lock.acquire(timeout=-1)
    with pytest.raises(redis_lock.NotAcquired):
        lock.release()
    assert issubclass(redis_lock.NotAcquired, RuntimeError)


def test_any_thread_can_release_a_lock_of_python_redis_lock(masters1: Fleet) -> None:
    redis_lock, server = peer("redis_lock"), redis.Redis.from_url(masters1.urls[0])
    lock = redis_lock.Lock(server, "x", expire=5)
    lock.acquire()
    in_thread(lock.release)
    assert not lock.locked()


def test_the_renewal_of_python_redis_lock_dies_of_its_first_failure_and_the_holder_works_on(
    masters1: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_lock, server = peer("redis_lock"), redis.Redis.from_url(masters1.urls[0])
    died: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: died.append(told.exc_value))
    lock = redis_lock.Lock(server, "x", expire=1, auto_renewal=True)
    with pytest.raises(redis_lock.NotAcquired), lock:
        server.delete("lock:x")
        assert eventually(lambda: died)
        assert isinstance(died[0], redis_lock.NotAcquired)
        time.sleep(1.5)
        assert len(died) == 1


# -- redlock-plus --------------------------------------------------------------------------------------------


def test_redlock_plus_needs_all_of_three_masters_and_rlock_two(
    fresh_masters: FreshMasters, make_client: Any
) -> None:
    redlock_plus, fleet = peer("redlock_plus"), fresh_masters(3)
    fleet[0].kill()
    assert not redlock_plus.Lock("x", [raw(url) for url in fleet.urls]).acquire(blocking=False)
    lock = make_client(fleet.urls).lock("x")
    assert lock.acquire(timeout=20)
    lock.release()


def test_a_second_thread_gets_into_an_rlock_of_redlock_plus(masters3: Fleet) -> None:
    lock = peer("redlock_plus").RLock("x", [raw(url) for url in masters3.urls])
    assert lock.acquire()
    assert in_thread(lambda: lock.acquire(blocking=False))


def test_with_autoextend_timeout_redlock_plus_renews_nothing(masters3: Fleet) -> None:
    lock = peer("redlock_plus").Lock("x", [raw(url) for url in masters3.urls], ttl=1500)
    assert lock.acquire(autoextend_timeout=60)
    assert lock.locked()
    time.sleep(2)
    assert not lock.locked()
    assert lock.release() is False


def test_an_rlock_of_redlock_plus_renews_only_when_told(masters3: Fleet) -> None:
    lock = peer("redlock_plus").RLock("x", [raw(url) for url in masters3.urls], ttl=1500)
    assert lock.acquire()
    time.sleep(2)
    assert not lock.locked()


def test_one_try_of_redlock_plus_is_four(masters3: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    redlock_plus, nodes = peer("redlock_plus"), [raw(url) for url in masters3.urls]
    redlock_plus.RLock("x", nodes).acquire()
    lock = redlock_plus.RLock("x", nodes, retry_delay=1)
    asked: list[Any] = []

    def refuse(node: Any) -> bool:
        asked.append(node)
        return False

    monkeypatch.setattr(lock, "_acquire_node", refuse)
    assert not lock.acquire(blocking=False)
    assert len(asked) == 4 * 3


# -- redlock-ng and aioredlock -------------------------------------------------------------------------------


def test_the_with_of_redlock_ng_runs_its_body_without_the_lock(masters3: Fleet) -> None:
    redlock = peer("redlock").Redlock(masters3.urls, retry_count=1)
    with redlock.lock("x", 30_000) as first, redlock.lock("x", 30_000) as second:
        assert first.valid
        assert not second.valid


class Visits(list[int]):
    async def __call__(self, order: int) -> None:
        self.append(order)


def test_aioredlock_before(masters3: Fleet) -> None:
    aioredlock = peer("aioredlock")
    visits = Visits()

    async def main() -> None:
        manager = aioredlock.Aioredlock(masters3.urls)
        await run(blocks()["aioredlock"], masters3.urls, ship=visits)["before"](manager)
        lock = await manager.lock("orders:42", lock_timeout=1.5)
        other = aioredlock.Aioredlock(masters3.urls, retry_count=1)
        with pytest.raises(aioredlock.LockError):
            await other.lock("orders:42")
        await other.destroy()
        await asyncio.sleep(2)
        assert lock.valid
        assert not await lock.is_locked()
        await manager.destroy()

    asyncio.run(main())
    assert visits == [42]


def test_aioredlock_now(masters3: Fleet) -> None:
    module = pytest.importorskip("rlock.asyncio", reason="rlock.asyncio is not there")
    visits = Visits()

    async def main() -> None:
        async with module.Client(masters3.urls) as client:
            await run(blocks()["aioredlock"], masters3.urls, ship=visits)["now"](client)
            lock = client.lock("orders:42")
            assert await lock.acquire(blocking=False)

            async def other() -> bool:
                return bool(await lock.acquire(timeout=0.2))

            assert await asyncio.create_task(other()) is False
            await lock.release()

    asyncio.run(main())
    assert visits == [42]
