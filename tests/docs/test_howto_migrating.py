"""docs/howto/migrating.md: its code as it stands there, and what it says of both sides, on real masters."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

import rlock

from ..conftest import FreshMasters
from ..contract.conftest import Child, eventually, in_thread
from ..contract.conftest import child as child  # fixtures
from ..contract.conftest import make_client as make_client
from ..servers import Fleet, raw
from .migrating import PACKAGES, PAIRS, blocks, run, side, text

MakeClient = Callable[..., rlock.Client]


@pytest.fixture
def setup(masters3: Fleet) -> Iterator[dict[str, Any]]:
    """What the page begins with."""
    found = run(blocks()["setup"], masters3.urls)
    yield found
    found["client"].close()


def peer(name: str) -> Any:
    """The module, or a skip with the reason; ``redis`` is always there."""
    return pytest.importorskip(name, reason=f"{PACKAGES[name]} is not installed")


def test_every_python_block_of_the_page_is_run_here() -> None:
    assert text().count("```python") == len(blocks())
    assert {*blocks()} == {"setup", *PAIRS, "aioredlock", "owner", "both"}


@pytest.mark.parametrize("name", PAIRS)
def test_what_stood_there_before_excludes_another_lock_of_the_same_library(
    name: str, setup: dict[str, Any], masters3: Fleet
) -> None:
    found = setup if name == "redis_py" else setup | {name: peer(name)}
    lock, other = (run(side(name, "before"), masters3.urls, **found)["lock"] for _ in range(2))
    with lock:
        assert not other.acquire(blocking=False)
    assert other.acquire(blocking=False)
    other.release()


@pytest.mark.parametrize("name", PAIRS)
def test_what_stands_there_now_excludes_other_threads_and_clients(
    name: str, setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    found = run(side(name, "now"), masters3.urls, **setup)
    client, lock = found["client"], found["lock"]
    assert len(client.masters) == (1 if name in ("redis_py", "redis_lock") else 3)
    other = make_client(client.masters, ttl=10.0).lock("orders:42")
    with lock, lock:
        assert in_thread(lambda: lock.acquire(blocking=False)) is False
        assert other.acquire(blocking=False) is False
    assert other.acquire(blocking=False) is True
    other.release()
    client.close()


# -- what changes, whichever you leave -----------------------------------------------------------------------


def test_a_second_acquire_in_one_thread_fails_with_redis_py_and_nests_here(setup: dict[str, Any]) -> None:
    old, new = setup["server"].lock("old", timeout=30), setup["client"].lock("new")
    with old, new:
        assert old.acquire(blocking=False) is False
        assert new.acquire(blocking=False) is True
        assert new.hold_count == 2
        new.release()


def test_the_arguments_are_those_of_threading(setup: dict[str, Any]) -> None:
    lock = setup["client"].lock("x")
    with pytest.raises(TypeError):
        lock.acquire(timeout=None)
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire(blocking=False, timeout=5)


def test_no_error_is_one_of_redis_py_and_those_of_release_are_runtime_errors() -> None:
    errors = (rlock.RLockError, rlock.NotHeldError, rlock.LeaseLostError, rlock.QuorumUnreachableError)
    assert not any(issubclass(error, redis.RedisError) for error in (*errors, rlock.OptionsError))
    assert issubclass(rlock.NotHeldError, RuntimeError)
    assert issubclass(rlock.LeaseLostError, RuntimeError)
    assert issubclass(LockError, ValueError)


def test_when_the_master_is_down_redis_py_raises_at_once_and_rlock_when_the_time_ends(
    fresh_masters: FreshMasters, make_client: MakeClient
) -> None:
    fleet = fresh_masters(1)
    client = make_client(fleet.urls)
    held = client.lock("held")
    held.acquire()
    fleet[0].kill()
    assert held.is_owned(), "asks no server"
    with pytest.raises(redis.ConnectionError):
        raw(fleet.urls[0]).lock("x").acquire(blocking_timeout=30)
    began = time.monotonic()
    with pytest.raises(rlock.QuorumUnreachableError):
        client.lock("x").acquire(timeout=1)
    assert time.monotonic() - began > 0.9


def test_a_fixed_time_is_ttl_with_renew_false_and_max_ttl_where_it_is_long(
    masters3: Fleet, make_client: MakeClient
) -> None:
    with pytest.raises(rlock.OptionsError, match="max_ttl"):
        make_client(masters3.urls).lock("x", ttl=30, renew=False)
    lock = make_client(masters3.urls, max_ttl=30).lock("x", ttl=30, renew=False)
    with lock:
        assert 25 < lock.remaining() < 30


def test_a_lock_that_ran_out_hides_the_exception_of_the_body_with_redis_py_and_not_here(
    setup: dict[str, Any],
) -> None:
    with pytest.raises(LockNotOwnedError), setup["server"].lock("old", timeout=0.2):
        time.sleep(0.5)
        raise KeyError("body")
    with pytest.raises(KeyError, match="body"), setup["client"].lock("new", ttl=0.5, renew=False):
        time.sleep(0.8)
        raise KeyError("body")
    with pytest.raises(rlock.LeaseLostError), setup["client"].lock("new", ttl=0.5, renew=False):
        time.sleep(0.8)


def test_the_first_argument_of_redis_py_s_acquire_is_sleep(setup: dict[str, Any]) -> None:
    server, lock = setup["server"], setup["client"].lock("new")
    with lock:
        assert in_thread(lambda: lock.acquire(False)) is False
    with server.lock("old", timeout=30):
        waiting = threading.Thread(target=server.lock("old", timeout=30).acquire, args=(False,))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
    waiting.join(30)
    assert not waiting.is_alive()


# -- when another thread releases ----------------------------------------------------------------------------


def test_with_a_thread_as_owner_any_thread_may_acquire_and_release(setup: dict[str, Any]) -> None:
    client = setup["client"]
    lock, acquire, release = client.lock("x"), *blocks()["owner"].split("if held:\n")
    release = "if held:\n" + release
    found = in_thread(lambda: run(acquire, [], lock=lock))
    assert found["held"] is True
    assert lock.locked()
    assert not lock.is_owned()
    run(release, [], **found)
    assert not lock.locked()
    found["owner"].shutdown()


def test_when_the_thread_of_the_owner_ends_the_lease_is_renewed_no_more(
    masters3: Fleet, make_client: MakeClient
) -> None:
    client = make_client(masters3.urls, ttl=3.0)
    acquire = blocks()["owner"].partition("if held:\n")[0]
    found = run(acquire, [], lock=client.lock("x"))
    other = make_client(masters3.urls).lock("x")
    assert not other.acquire(timeout=3.5), "it is renewed"
    found["owner"].shutdown()
    assert other.acquire(timeout=20)
    other.release()


# -- what you lose -------------------------------------------------------------------------------------------


ENDS = """
import sys, redis, rlock
assert redis.Redis.from_url(sys.argv[1]).lock("old").acquire()
assert rlock.Client(sys.argv[1]).lock("new").acquire()
print("held")
sys.stdin.readline()
"""


def test_the_lock_of_redis_py_outlives_its_process_and_ours_does_not(
    masters1: Fleet, child: Callable[..., Child], make_client: MakeClient
) -> None:
    (url,) = masters1.urls
    new = make_client(url).lock("new")
    program = child(ENDS, url)
    assert program.line() == "held"
    assert new.locked()
    program.say()
    assert program.end() == 0
    assert not new.locked()
    assert raw(url).lock("old").locked()
    assert raw(url).ttl("old") == -1, "for ever"


def test_a_client_has_one_thread_and_one_more_when_somebody_waits(setup: dict[str, Any]) -> None:
    def threads() -> int:
        return len([thread for thread in threading.enumerate() if thread.name.startswith("rlock")])

    before = threads()
    with setup["server"].lock("old", timeout=30):
        assert threads() == before
    lock = setup["client"].lock("new")
    with lock:
        assert threads() == before + 1
        waiting = threading.Thread(target=lambda: lock.acquire() and lock.release())
        waiting.start()
        assert eventually(lambda: threads() == before + 2)
    waiting.join(30)


# -- one key for both ----------------------------------------------------------------------------------------


def test_where_redis_py_holds_the_key_rlock_raises_at_once(setup: dict[str, Any]) -> None:
    client = setup["client"]
    lock = client.lock("x")
    asked: list[Callable[[], Any]] = [lock.acquire, lock.__enter__, lock.locked, lambda: client.status("x")]
    with setup["server"].lock("x", timeout=30):
        for ask in asked:
            with pytest.raises(rlock.OptionsError, match="no lock wrote"):
                ask()
    assert lock.acquire(blocking=False)
    lock.release()


def test_where_rlock_holds_the_key_redis_py_waits(setup: dict[str, Any]) -> None:
    old = setup["server"].lock("x", timeout=30, thread_local=False)
    with setup["client"].lock("x"):
        assert old.acquire(blocking=False) is False
        waiting = threading.Thread(target=old.acquire)
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
    waiting.join(30)
    assert old.owned()
    old.release()


def test_where_rlock_took_the_key_of_one_who_was_late_redis_py_raises_what_is_no_lock_error(
    setup: dict[str, Any],
) -> None:
    old = setup["server"].lock("x", timeout=0.2)
    old.acquire()
    assert eventually(lambda: not setup["server"].exists("x"))
    with setup["client"].lock("x"):
        for ask in (lambda: old.extend(1), old.owned, old.locked, old.release):
            with pytest.raises(ResponseError, match="WRONGTYPE") as error:
                ask()
            assert not isinstance(error.value, LockError)


def test_where_redis_py_holds_the_key_on_one_of_three_both_have_it(
    setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    lock = make_client(masters3.urls).lock("x")
    with setup["server"].lock("x", timeout=30) as old, lock:
        assert old.owned()
        assert lock.is_owned()


# -- the clients of one master and of three ------------------------------------------------------------------


def test_clients_of_one_master_and_of_three_do_not_exclude_each_other_reliably(
    masters3: Fleet, make_client: MakeClient
) -> None:
    one, three = make_client(masters3.urls[:1]), make_client(masters3.urls)
    with one.lock("x"):
        assert three.lock("x").acquire(blocking=False)
        three.lock("x").release()


def test_the_recipe_changes_the_set_of_masters(
    setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    one, three = make_client(masters3.urls[:1]), make_client(masters3.urls)
    make = run(blocks()["both"], masters3.urls, **setup)["Both"]
    both = make(three.lock("v2:x"), one.lock("x"))
    others = [make_client(masters3.urls[:1]).lock("x"), make_client(masters3.urls).lock("v2:x")]
    with both:
        assert not any(other.acquire(blocking=False) for other in others)
    for other in others:
        with other:
            assert both.acquire(blocking=False) is False
    assert both.acquire(blocking=False) is True
    with contextlib.suppress(rlock.NotHeldError):
        both.release()
