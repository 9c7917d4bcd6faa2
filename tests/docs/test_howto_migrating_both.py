"""The recipe of docs/howto/migrating.md that takes two locks for one release, with each library it names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import LockNotOwnedError

import rlock

from ..contract.conftest import eventually, in_thread
from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, raw
from .migrating import blocks, run
from .test_howto_migrating import peer
from .test_howto_migrating import setup as setup  # a fixture

MakeClient = Callable[..., rlock.Client]
Olds = dict[str, Callable[[dict[str, Any]], Any]]

#: An old lock named `orders:42` of each library, made anew for every thread.
OLD: Olds = {
    "redis": lambda found: found["server"].lock("orders:42", timeout=30, sleep=0.01),
    "pottery": lambda found: peer("pottery").Redlock(key="orders:42", masters={*found["servers"]}),
    "redis_lock": lambda found: peer("redis_lock").Lock(found["server"], "orders:42", expire=30),
    # Not its Lock: that one renews in a thread that outlives the release, and so the test.
    "redlock_plus": lambda found: peer("redlock_plus").RLock("orders:42", found["servers"], ttl=30_000),
}
olds = pytest.mark.parametrize("library", OLD)


@pytest.fixture
def both(setup: dict[str, Any], masters3: Fleet) -> Any:
    """The class of the page."""
    return run(blocks()["both"], masters3.urls, **setup)["Both"]


class Section:
    """A critical section that notices a second visitor."""

    def __init__(self) -> None:
        self.inside = self.most = self.visits = 0
        self._mutex = threading.Lock()

    def __call__(self) -> None:
        with self._mutex:
            self.inside += 1
            self.visits += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.01)
        with self._mutex:
            self.inside -= 1


def visit(section: Section, locks: list[Any], times: int = 6) -> None:
    """Each lock in a thread of its own, side by side."""

    def work(lock: Any) -> None:
        for _ in range(times):
            with lock:
                section()
            time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert section.visits == len(locks) * times


def test_the_last_line_of_the_recipe_is_a_lock(setup: dict[str, Any], masters3: Fleet) -> None:
    lock = run(blocks()["both"], masters3.urls, **setup)["lock"]
    with lock as entered:
        assert entered is lock
        assert setup["client"].lock("v2:orders:42").locked()
        assert setup["server"].lock("orders:42").locked()
    assert not setup["client"].lock("v2:orders:42").locked()
    assert not setup["server"].lock("orders:42").locked()


@olds
def test_old_code_and_release_a_exclude_each_other(library: str, setup: dict[str, Any], both: Any) -> None:
    make, client, section = OLD[library], setup["client"], Section()
    visit(section, [make(setup), make(setup), *(both(client.lock("v2"), make(setup)) for _ in range(2))])
    assert section.most == 1


@olds
def test_release_a_and_release_b_exclude_each_other(
    library: str, setup: dict[str, Any], both: Any, make_client: MakeClient
) -> None:
    make, client, section = OLD[library], setup["client"], Section()
    other = make_client(client.masters, ttl=10.0)
    locks = [both(client.lock("v2"), make(setup)) for _ in range(2)]
    visit(section, [*locks, client.lock("v2"), other.lock("v2")])
    assert section.most == 1


@olds
def test_old_code_and_release_b_do_not(library: str, setup: dict[str, Any]) -> None:
    old = OLD[library](setup)
    with old:
        assert setup["client"].lock("v2").acquire(blocking=False) is True


@olds
def test_threads_that_share_the_objects_of_both_exclude_each_other(
    library: str, setup: dict[str, Any], both: Any
) -> None:
    section = Section()
    visit(section, [both(setup["client"].lock("v2"), OLD[library](setup))] * 3, times=4)
    assert section.most == 1


@olds
def test_who_does_not_get_the_old_one_gives_the_new_one_back(
    library: str, setup: dict[str, Any], both: Any
) -> None:
    new = setup["client"].lock("v2")
    lock = both(new, OLD[library](setup))
    with OLD[library](setup):
        assert lock.acquire(blocking=False) is False
        began = time.monotonic()
        assert lock.acquire(timeout=0.5) is False
        assert 0.5 <= time.monotonic() - began < 10
        assert not new.locked()
    assert lock.acquire(timeout=0.5) is True
    lock.release()


@olds
def test_nested_acquires_take_the_old_one_once(library: str, setup: dict[str, Any], both: Any) -> None:
    new, other = setup["client"].lock("v2"), OLD[library](setup)
    outer, inner = (both(setup["client"].lock("v2"), OLD[library](setup)) for _ in range(2))
    with outer, inner:
        assert new.hold_count == 2
        assert not other.acquire(blocking=False)
    assert new.hold_count == 0
    assert other.acquire(blocking=False)
    other.release()


def test_who_does_not_get_the_new_one_leaves_the_old_one_alone(setup: dict[str, Any], both: Any) -> None:
    new, old = setup["client"].lock("v2"), OLD["redis"](setup)
    with new:
        assert in_thread(lambda: both(new, old).acquire(blocking=False)) is False
        assert in_thread(lambda: both(new, old).acquire(timeout=0.2)) is False
        assert not old.locked()


@olds
def test_who_does_not_hold_it_cannot_release_it(library: str, setup: dict[str, Any], both: Any) -> None:
    new, other = setup["client"].lock("v2"), OLD[library](setup)
    lock = both(new, OLD[library](setup))
    with lock:
        with pytest.raises(rlock.NotHeldError):
            in_thread(lock.release)
        assert new.locked()
        assert not other.acquire(blocking=False)


def test_an_old_lock_that_ran_out_is_told_as_before_and_the_new_one_is_given_back(
    setup: dict[str, Any], both: Any
) -> None:
    new = setup["client"].lock("v2")
    with pytest.raises(LockNotOwnedError), both(new, setup["server"].lock("orders:42", timeout=0.2)):
        time.sleep(0.5)
    assert not new.locked()


def test_an_old_lock_that_raises_is_heard_and_the_new_one_is_given_back(
    setup: dict[str, Any], both: Any
) -> None:
    new = setup["client"].lock("v2")
    setup["server"].lpush("orders:42", "another type")

    class Failing:
        def acquire(self, blocking: bool) -> bool:
            return bool(setup["server"].get("orders:42"))

    with pytest.raises(Exception, match="WRONGTYPE"):
        both(new, Failing()).acquire()
    assert not new.locked()


def test_a_new_lock_that_is_lost_while_the_old_one_is_waited_for_is_told(
    setup: dict[str, Any], both: Any, masters3: Fleet, make_client: MakeClient
) -> None:
    client = make_client(masters3.urls[:1], ttl=1.0)
    results: list[Any] = []

    def wait() -> None:
        try:
            results.append(both(client.lock("v2"), OLD["redis"](setup)).acquire())
        except rlock.LeaseLostError as error:
            results.append(error)

    with OLD["redis"](setup):
        thread = threading.Thread(target=wait)
        thread.start()
        assert eventually(lambda: client.lock("v2").locked())
        setup["client"].evict("v2")
        thread.join(20)
        assert isinstance(results[0], rlock.LeaseLostError)
    assert raw(masters3.urls[0]).exists("v2", "orders:42") == 0
