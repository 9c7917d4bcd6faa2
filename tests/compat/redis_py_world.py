"""The fixtures of redis-py's own tests of its lock, of threads or of tasks; copied as their conftest.py.

RLOCK_COMPAT_URLS names the masters, RLOCK_COMPAT_TASKS says whose tests they are. The client of the tests
writes to all masters: a test that changes the key behind a lock does so on each.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio

import rlock.asyncio
from rlock.compat import redis_py

URLS = os.environ["RLOCK_COMPAT_URLS"].split()
TASKS = "RLOCK_COMPAT_TASKS" in os.environ
REDIS: Any = redis.asyncio.Redis if TASKS else redis.Redis


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name not in os.environ["RLOCK_COMPAT_EXCLUDED"].split()]


class OnAll(REDIS):  # type: ignore[misc]
    """Runs each command on all masters; the reply is that of the first."""

    def execute_command(self, *words: Any, **options: Any) -> Any:
        others = [other.execute_command(*words, **options) for other in self.others]
        reply = super().execute_command(*words, **options)
        return behind(others, reply) if TASKS else reply


async def behind(others: Sequence[Awaitable[Any]], reply: Awaitable[Any]) -> Any:
    for other in others:
        await other
    return await reply


def _get_client(_: object, request: object, **options: Any) -> Any:
    client: Any = OnAll.from_url(URLS[0], **options)
    client.others = [REDIS.from_url(url) for url in URLS[1:]]
    for url in URLS:
        redis.Redis.from_url(url).flushall()
    if not TASKS:
        client.ping()  # connects: a test measures its first command
    return client


@pytest.fixture
def r() -> Any:
    return _get_client(None, None)


@pytest.fixture
def create_redis() -> Callable[..., Any]:
    async def create(**options: Any) -> Any:
        return _get_client(None, None, **options)

    return create


@pytest_asyncio.fixture(autouse=True)
async def lock_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The tests' name `Lock` means ours."""
    client: Any = (rlock.asyncio if TASKS else rlock).Client(URLS, max_ttl=30, restart_guard=0)
    monkeypatch.setattr(request.module, "Lock", redis_py.lock_class(client))
    yield
    closed = client.close()
    if TASKS:
        await closed
