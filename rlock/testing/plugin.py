"""Fixtures for pytest: ``pytest_plugins = ["rlock.testing.plugin"]`` in the topmost conftest.py.

``rlock_masters``         URLs of real masters, for the whole run; started, unless named (see below)
``rlock_client``          a client on them, closed with the test; masters that were started here are empty
``rlock_memory_client``   a client on one master in memory, closed with the test
``rlock_memory_masters`` one master in memory, for clients of your own: of asyncio, or several on the same

``RLOCK_TEST_MASTERS``, or else ``rlock_test_masters`` in pytest's configuration: how many masters to start
(3 if neither says so), or the URLs of some that run. These are never flushed: they may be somebody's.

Not an entry point, which pytest would load in each run of everyone who has rlock installed: that costs the
import of redis, and modules that are imported so early are not seen by coverage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .._client.libraries import library_of
from ..client import Client
from ..rules.keys import NOTE
from ..rules.options import split_urls
from .clients import memory_client
from .local.embedded import EmbeddedError, Masters, ServerBinary, find_server
from .memory import MemoryMasters

DEFAULT = "3"
_VARIABLE, _OPTION = "RLOCK_TEST_MASTERS", "rlock_test_masters"


def pytest_addoption(parser: pytest.Parser) -> None:
    """For pytest."""
    parser.addini(_OPTION, f"rlock: how many masters to start, or URLs; {_VARIABLE} goes before", default="")


class _Started:
    """Masters of this run, which nobody else uses."""

    def __init__(self, count: int, server: ServerBinary) -> None:
        self._masters = Masters(count, server)
        self.urls = self._masters.urls
        self._clients = [library_of(None).Redis.from_url(url) for url in self.urls]

    def flush(self) -> None:
        """Drop what tests left behind."""
        for client in self._clients:
            note = client.get(NOTE)
            pipe = client.pipeline(transaction=True)
            pipe.flushall()
            if note is not None:
                # In the same instant: a client that finds no note waits for the restart guard.
                pipe.set(NOTE, note)
            pipe.execute()

    def close(self) -> None:
        """End them."""
        for client in self._clients:
            client.close()
        self._masters.close()


@pytest.fixture(scope="session")
def _rlock_fleet(request: pytest.FixtureRequest) -> Iterator[tuple[list[str], _Started | None]]:
    """URLs, and the masters behind them if they were started here."""
    wanted = os.environ.get(_VARIABLE, "").strip() or str(request.config.getini(_OPTION)).strip() or DEFAULT
    if not wanted.isdecimal():
        yield split_urls(wanted), None
        return
    try:
        server = find_server()
    except EmbeddedError as error:
        pytest.skip(f"rlock_masters: {error.message}; or name masters that run in {_VARIABLE}")
    # What does not start although it is there is an error: skipped tests look like a pass.
    started = _Started(int(wanted), server)
    try:
        yield started.urls, started
    finally:
        started.close()


@pytest.fixture(scope="session")
def rlock_masters(_rlock_fleet: tuple[list[str], _Started | None]) -> list[str]:
    """URLs of real masters, the same for all tests of the run; with pytest-xdist, of one worker."""
    return _rlock_fleet[0]


@pytest.fixture
def rlock_client(_rlock_fleet: tuple[list[str], _Started | None]) -> Iterator[Client]:
    """A client on real masters."""
    urls, started = _rlock_fleet
    if started is not None:
        started.flush()
    with Client(urls) as client:
        yield client


@pytest.fixture
def rlock_memory_masters() -> MemoryMasters:
    """A master in memory: no server, nothing left from another test. For ``memory_client(masters=...)``."""
    return MemoryMasters()


@pytest.fixture
def rlock_memory_client(rlock_memory_masters: MemoryMasters) -> Iterator[Client]:
    """A client on the master in memory."""
    with memory_client(masters=rlock_memory_masters) as client:
        yield client
