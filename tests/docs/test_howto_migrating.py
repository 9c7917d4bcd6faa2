"""docs/howto/migrating.md: its code as it stands there, and what it says of both sides, on real masters."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio

from ..contract.conftest import child as child  # fixtures
from ..contract.conftest import in_thread
from ..contract.conftest import make_client as make_client
from ..servers import Fleet
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


def test_a_fixed_time_is_ttl_with_renew_false_and_max_ttl_where_it_is_long(
    masters3: Fleet, make_client: MakeClient
) -> None:
    with pytest.raises(rlock.OptionsError, match="max_ttl"):
        make_client(masters3.urls).lock("x", ttl=30, renew=False)
    lock = make_client(masters3.urls, max_ttl=30).lock("x", ttl=30, renew=False)
    with lock:
        assert 25 < lock.remaining() < 30


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


def test_the_tasks_of_the_page_take_their_turns(masters3: Fleet) -> None:
    visits: list[int] = []

    async def ship(order: int) -> None:
        visits.append(order)

    async def main() -> None:
        async with rlock.asyncio.Client(masters3.urls) as client:
            await run(blocks()["aioredlock"], masters3.urls, ship=ship)["now"](client)

    asyncio.run(main())
    assert visits == [42]
