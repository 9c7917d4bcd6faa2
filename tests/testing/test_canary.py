"""The search for the password of the test masters finds it wherever a test may show it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import redis

import rlock
from rlock import events

from ..canary import leaks, look
from ..servers import PASSWORD, Fleet

pytest_plugins = ["pytester"]

TESTS = """
    import asyncio, logging, subprocess, sys
    import pytest, rlock
    from tests.servers import PASSWORD
    PART = PASSWORD[:20]

    def test_print(): print(PART)
    def test_stderr(): print(PART, file=sys.stderr)
    def test_debug(): logging.getLogger("rlock").debug("", extra={"more": PASSWORD})
    def test_asyncio(): logging.getLogger("asyncio").warning("%s", PASSWORD.encode())
    def test_child(): subprocess.run([sys.executable, "-c", f"print({PART!r})"], stdout=subprocess.PIPE)
    def test_cause():
        with pytest.raises(ValueError):
            raise ValueError("x") from KeyError(PASSWORD[-20:])
    def test_swallowed():
        try:
            raise rlock.QuorumUnreachableError("x", 1, 1, {"m": PART})
        except rlock.RLockError:
            pass

    def test_nothing(): assert not logging.getLogger("other").debug(PASSWORD)
    def test_dropped(caplog): assert logging.getLogger("rlock").info("all is well") or not caplog.records
"""


@pytest.mark.slow  # it starts pytest
def test_each_test_that_shows_a_part_of_the_password_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tests.canary"]')
    pytester.makepyfile(TESTS)
    found = pytester.runpytest_subprocess()
    found.assert_outcomes(passed=2, failed=7)
    assert PASSWORD not in found.stdout.str()


def texts(value: object) -> str:
    return f"{value} {value!r} {getattr(value, '__dict__', '')}"


def test_no_public_object_of_a_client_shows_the_password_in_its_text(masters3: Fleet) -> None:
    """Nor in a pickle, but for that of a lock: docs/environments.md."""
    seen: list[Any] = []
    end = events.observe(seen.append)
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        lock = client.lock("x")
        calls: tuple[Callable[[], Any], ...] = (
            lambda: other.lock("x").acquire(timeout=0.1),
            lambda: rlock.Client(masters3.labels).lock("x").acquire(blocking=False),
            lambda: other.lock("x").release(),
            lambda: client.status("x"),
            lambda: client.evict("y"),
            client.init,
            lambda: client.masters,
            lambda: rlock.Client([masters3.urls[0]] * 2),
        )
        with lock:
            for call in calls:
                try:
                    seen.append(call())
                except rlock.RLockError as error:
                    seen.append(error)
        bare = (client, lock, lock.lost, client.semaphore("s", permits=2), client.locks(["a", "b"]))
        groups = [rlock.Group(library(url), 1) for url in masters3.urls for library in libraries()]
        for each in (*seen, *bare, *groups):
            look(texts(each), f"the text of a {type(each).__name__}")
        for each in seen:
            look(pickle.dumps(each), f"the pickle of a {type(each).__name__}")
    end()
    assert leaks() == []
    assert any(isinstance(each, rlock.OptionsError) for each in seen)


def libraries() -> list[Callable[[str], Any]]:
    valkey = pytest.importorskip("valkey")
    return [redis.Redis.from_url, valkey.Valkey.from_url]
