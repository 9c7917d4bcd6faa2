"""The fixtures of redis-py's own asyncio tests of its lock; see redis_py_world.py."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio

import rlock.asyncio
from rlock.compat import redis_py

URLS = os.environ["RLOCK_COMPAT_URLS"].split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name not in os.environ["RLOCK_COMPAT_EXCLUDED"].split()]


class OnAll(redis.asyncio.Redis):
    """Runs each command on all masters; the reply is that of the first."""

    others: list[Any]

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        for other in self.others:
            await other.execute_command(*words, **options)
        return await super().execute_command(*words, **options)  # type: ignore[no-untyped-call]


@pytest_asyncio.fixture(name="create_redis")
async def _create_redis() -> AsyncIterator[Callable[..., Any]]:
    made: list[Any] = []

    async def create(**options: Any) -> Any:
        client: Any = OnAll.from_url(URLS[0], **options)
        client.others = [redis.asyncio.Redis.from_url(url) for url in URLS[1:]]
        made.extend([client, *client.others])
        await client.flushall()
        return client

    yield create
    for client in made:
        await client.aclose()


@pytest_asyncio.fixture
async def r(create_redis: Callable[..., Any]) -> Any:
    return await create_redis()


@pytest_asyncio.fixture(autouse=True)
async def lock_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The tests' name `Lock` means ours."""
    async with rlock.asyncio.Client(URLS, max_ttl=30, restart_guard=0) as client:
        monkeypatch.setattr(request.module, "Lock", redis_py.lock_class(client))
        yield
