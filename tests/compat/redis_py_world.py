"""The fixtures of redis-py's own tests of its lock, on one master or more; copied as their conftest.py.

RLOCK_COMPAT_URLS names the masters. The client of the tests writes to all of them: a test that changes the
key behind a lock does so on each master.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rlock
from rlock.compat import redis_py

URLS = os.environ["RLOCK_COMPAT_URLS"].split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name not in os.environ["RLOCK_COMPAT_EXCLUDED"].split()]


class OnAll(redis.Redis):
    """Runs each command on all masters; the reply is that of the first."""

    others: list[Any]

    def execute_command(self, *words: Any, **options: Any) -> Any:
        for other in self.others:
            other.execute_command(*words, **options)
        return super().execute_command(*words, **options)  # type: ignore[no-untyped-call]


def _get_client(_: object, request: object, **options: Any) -> Any:
    client: Any = OnAll.from_url(URLS[0], **options)
    client.others = [redis.Redis.from_url(url) for url in URLS[1:]]
    client.flushall()
    return client


@pytest.fixture
def r() -> Any:
    return _get_client(None, None)


@pytest.fixture(autouse=True)
def lock_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tests' name `Lock` means ours."""
    with rlock.Client(URLS, max_ttl=30, restart_guard=0) as client:
        monkeypatch.setattr(request.module, "Lock", redis_py.lock_class(client))
        yield
