"""Fixtures and helpers for the tests of the semaphore and of several names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import rlock
from rlock.testing import MemoryMasters, memory_client

Connect = Callable[..., rlock.Client]


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(5)


@pytest.fixture
def connect(masters: MemoryMasters) -> Iterator[Connect]:
    """Makes clients. Each one stands for a process."""
    made: list[rlock.Client] = []

    def connect(**options: Any) -> rlock.Client:
        made.append(memory_client(masters=masters, **{"ttl": 2.0, **options}))
        with made[-1].lock(f"first use {len(made)}"):
            return made[-1]

    yield connect
    for client in made:
        client.close()


@contextmanager
def round_trips(client: rlock.Client) -> Iterator[list[str]]:
    """The round trips of a client for which somebody waits."""
    masters: Any = client._engine().masters
    made: list[str] = []

    def counted(method: Any, *arguments: Any, **options: Any) -> Any:
        made.append(method.__name__)
        return method(*arguments, **options)

    masters.call, masters.call_many = partial(counted, masters.call), partial(counted, masters.call_many)
    yield made
    del masters.call, masters.call_many


@contextmanager
def waiting(lock: Any) -> Iterator[threading.Thread]:
    """A thread that acquires and releases."""

    def wait() -> None:
        with lock:
            pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield thread
    thread.join(10.0)
    assert not thread.is_alive()
