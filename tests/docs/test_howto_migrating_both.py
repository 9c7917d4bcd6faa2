"""The recipe of docs/howto/migrating.md that takes two locks for one release, beside redis-py's lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import rlock

from ..contract.conftest import eventually, in_thread
from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, raw
from .migrating import blocks, run
from .test_howto_migrating import setup as setup  # a fixture

MakeClient = Callable[..., rlock.Client]


def redis_lock(found: dict[str, Any]) -> Any:
    """An old lock named `orders:42` of redis-py, made anew for every thread."""
    return found["server"].lock("orders:42", timeout=30, sleep=0.01)


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


def test_old_code_and_release_a_exclude_each_other(setup: dict[str, Any], both: Any) -> None:
    make, client, section = redis_lock, setup["client"], Section()
    visit(section, [make(setup), make(setup), *(both(client.lock("v2"), make(setup)) for _ in range(2))])
    assert section.most == 1


def test_release_a_and_release_b_exclude_each_other(
    setup: dict[str, Any], both: Any, make_client: MakeClient
) -> None:
    make, client, section = redis_lock, setup["client"], Section()
    other = make_client(client.masters, ttl=10.0)
    locks = [both(client.lock("v2"), make(setup)) for _ in range(2)]
    visit(section, [*locks, client.lock("v2"), other.lock("v2")])
    assert section.most == 1


def test_who_does_not_get_the_old_one_gives_the_new_one_back(setup: dict[str, Any], both: Any) -> None:
    new = setup["client"].lock("v2")
    lock = both(new, redis_lock(setup))
    with redis_lock(setup):
        assert lock.acquire(blocking=False) is False
        began = time.monotonic()
        assert lock.acquire(timeout=0.5) is False
        assert 0.5 <= time.monotonic() - began < 10
        assert not new.locked()
    assert lock.acquire(timeout=0.5) is True
    lock.release()


def test_nested_acquires_take_the_old_one_once(setup: dict[str, Any], both: Any) -> None:
    new, other = setup["client"].lock("v2"), redis_lock(setup)
    outer, inner = (both(setup["client"].lock("v2"), redis_lock(setup)) for _ in range(2))
    with outer, inner:
        assert new.hold_count == 2
        assert not other.acquire(blocking=False)
    assert new.hold_count == 0
    assert other.acquire(blocking=False)
    other.release()


def test_who_does_not_get_the_new_one_leaves_the_old_one_alone(setup: dict[str, Any], both: Any) -> None:
    new, old = setup["client"].lock("v2"), redis_lock(setup)
    with new:
        assert in_thread(lambda: both(new, old).acquire(blocking=False)) is False
        assert in_thread(lambda: both(new, old).acquire(timeout=0.2)) is False
        assert not old.locked()


def test_a_new_lock_that_is_lost_while_the_old_one_is_waited_for_is_told(
    setup: dict[str, Any], both: Any, masters3: Fleet, make_client: MakeClient
) -> None:
    client = make_client(masters3.urls[:1], ttl=1.0)
    results: list[Any] = []

    def wait() -> None:
        try:
            results.append(both(client.lock("v2"), redis_lock(setup)).acquire())
        except rlock.LeaseLostError as error:
            results.append(error)

    with redis_lock(setup):
        thread = threading.Thread(target=wait)
        thread.start()
        assert eventually(lambda: client.lock("v2").locked())
        setup["client"].evict("v2")
        thread.join(20)
        assert isinstance(results[0], rlock.LeaseLostError)
    assert raw(masters3.urls[0]).exists("v2", "orders:42") == 0
