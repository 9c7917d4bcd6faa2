"""Redisson, for tests that need both sides of a lock.

``redisson``   the Java side, built; without Java, Maven or the registry its tests are left out
``jvm``        one Java process that all tests of a worker share
``java``       ``java(urls, **options)``: Redisson's clients in it, closed with the test
``fresh_jvm``  ``fresh_jvm()``: a Java process of the test's own, to be killed or stopped
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from .building import Build, NotBuiltError, build
from .jvm import Client, Jvm

MakeJava = Callable[..., Client]
MakeJvm = Callable[[], Jvm]


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
