"""Redisson, for tests that need both sides of a lock.

``redisson``   the Java side, built; without Java, Maven or the registry its tests are left out
``jvm``        one Java process that all tests of a worker share
``java``       ``java(urls, **options)``: Redisson's clients in it, closed with the test
``fresh_jvm``  ``fresh_jvm()``: a Java process of the test's own, to be killed or stopped
``python``     ``python(urls, **options)``: a client of rlock, with and without ``interop`` where it has that
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rlock

from .building import OFFLINE_S, ONLINE_S, Build, NotBuiltError, build
from .jvm import Client, Jvm

MakeJava = Callable[..., Client]
MakeJvm = Callable[[], Jvm]
MakePython = Callable[..., rlock.Client]
FOLDER = Path(__file__).parent
WAYS = ["plain", "interop"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first one of a worker may have to build, or to wait until another worker has built.
    for item in items:
        if FOLDER in item.path.parents and "redisson" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(OFFLINE_S + ONLINE_S + 120))


@pytest.fixture(scope="session")
def redisson() -> Build:
    try:
        return build()
    except NotBuiltError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def jvm(redisson: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    with Jvm(redisson, tmp_path_factory.mktemp("jvm")) as started:
        yield started


@pytest.fixture
def java(jvm: Jvm) -> Iterator[MakeJava]:
    with contextlib.ExitStack() as stack:
        made = 0

        def make(urls: Sequence[str], **options: Any) -> Client:
            nonlocal made
            made += 1
            client = jvm.client(urls, f"client {made}", **options)
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture
def fresh_jvm(redisson: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeJvm]:
    with contextlib.ExitStack() as stack:

        def make() -> Jvm:
            return stack.enter_context(Jvm(redisson, tmp_path_factory.mktemp("jvm")))

        yield make


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of a module that says `EVERY_WAY = True` run with and without ``interop``."""
    if "python" in metafunc.fixturenames:
        every = getattr(metafunc.module, "EVERY_WAY", False)
        metafunc.parametrize("python", WAYS if every else WAYS[-1:], indirect=True)


@pytest.fixture
def python(request: pytest.FixtureRequest) -> Iterator[MakePython]:
    """Excludes Redisson in either way; only ``interop`` is woken by it, and wakes it."""
    with contextlib.ExitStack() as stack:

        def make(urls: Sequence[str], **options: Any) -> rlock.Client:
            if request.param == "interop":
                options["interop"] = "redisson"
            return stack.enter_context(rlock.Client(urls, **options))

        yield make
