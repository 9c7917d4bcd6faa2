"""docs/howto/migrating.md: its code and its recipe for the change-over, on real masters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ..lock.conftest import MakeClient, in_thread
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from .pages import block

PAGE = "howto/migrating.md"
#: Blocks with one or two lines before, and one or two now.
PAIRS = ["redis_py", "pottery", "redis_lock", "redlock_plus"]


def run(source: str, urls: Sequence[str] = (), **given: Any) -> dict[str, Any]:
    """The names that the source defines, with the masters at ``urls`` in place of those of the page."""
    for number, url in enumerate(urls, 1):
        source = source.replace(f"redis://10.0.0.{number}", url)
    assert "10.0.0." not in source, "more masters are named than there are"
    exec(compile(source, PAGE, "exec"), given)
    return given


@pytest.fixture
def setup(masters3: Fleet) -> Iterator[dict[str, Any]]:
    """The objects that the examples of the page use."""
    found = run(block(PAGE, "setup"), masters3.urls)
    yield found
    found["client"].close()


def old_lock(found: dict[str, Any]) -> Any:
    return found["server"].lock("orders:42", timeout=30, sleep=0.01)


@pytest.mark.parametrize("name", PAIRS)
def test_the_new_lines_exclude_other_threads_and_clients(
    name: str, setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    now = "\n".join(line for line in block(PAGE, name).splitlines() if line.endswith("# now"))
    found = run(now, masters3.urls, **setup)
    client, lock = found["client"], found["lock"]
    other = make_client(client.masters, ttl=10.0).lock("orders:42")
    with lock, lock:
        assert in_thread(lambda: lock.acquire(blocking=False)) is False
        assert other.acquire(blocking=False) is False
    assert other.acquire(blocking=False) is True
    other.release()
    client.close()


def test_with_a_thread_as_owner_any_thread_may_acquire_and_release(setup: dict[str, Any]) -> None:
    lock, (acquire, release) = setup["client"].lock("x"), block(PAGE, "owner").split("if held:\n")
    found = in_thread(lambda: run(acquire, lock=lock))
    assert found["held"] is True
    assert lock.locked()
    assert not lock.is_owned()
    run("if held:\n" + release, **found)
    assert not lock.locked()
    found["owner"].shutdown()


def most_inside(locks: list[Any]) -> int:
    """The largest number of threads that were inside at once, with one lock each."""
    inside, seen = list[Any](), list[int]()

    def work(lock: Any) -> None:
        for _ in range(6):
            with lock:
                inside.append(lock)
                seen.append(len(inside))
                time.sleep(0.01)
                inside.pop()
            time.sleep(0.02)

    with ThreadPoolExecutor(len(locks)) as threads:
        list(threads.map(work, locks))
    return max(seen)


def test_release_a_excludes_old_code_and_release_b(setup: dict[str, Any], make_client: MakeClient) -> None:
    both = run(block(PAGE, "both"), **setup)["Both"]
    new = setup["client"].lock("v2")
    assert most_inside([old_lock(setup), old_lock(setup), both(new, old_lock(setup))]) == 1
    other = make_client(setup["client"].masters, ttl=10.0).lock("v2")
    assert most_inside([both(new, old_lock(setup)), new, other]) == 1
