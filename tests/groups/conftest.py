"""Groups of real servers, and clients of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock
from rlock.testing.local.embedded import ServerBinary

from ..faults.checks import usable as usable
from ..lock.conftest import KINDS, Kind
from ..lock.conftest import make_client as make_client  # a fixture
from .group import ReplicatedGroup

ClientFor = Callable[..., rlock.Client]
GroupOf = Callable[..., ReplicatedGroup]
TTL = 1.0  # of the locks, and the longest of the fleet
#: For tests in which the driver makes no difference.
one_kind = pytest.mark.parametrize("kind", ["blocking"], indirect=True)


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def client_for(kind: Kind, make_client: ClientFor) -> ClientFor:
    """``client_for(url, ...)``: a client of each kind that is closed with the test."""
    return lambda *masters, ttl=TTL, **options: make_client([*masters], ttl, **{"max_ttl": ttl, **options})


@pytest.fixture
def group_of(server: ServerBinary) -> Iterator[GroupOf]:
    """``group_of(replicas, sentinels)``: a group in which nothing was ever locked."""
    with contextlib.ExitStack() as stack:

        def make(*how: Any, **more: Any) -> ReplicatedGroup:
            group = stack.enter_context(ReplicatedGroup(server, *how, **more))
            init(group.url)
            return group

        yield make


@pytest.fixture(scope="module")
def watched_group(server: ServerBinary) -> Iterator[ReplicatedGroup]:
    with ReplicatedGroup(server, replicas=1, sentinels=3) as group:
        yield group


@pytest.fixture
def watched(watched_group: ReplicatedGroup) -> Iterator[ReplicatedGroup]:
    """A group with Sentinels, in which nothing is locked."""
    watched_group.mend()
    watched_group.primary.client.flushall()
    init(watched_group.url)
    yield watched_group
    watched_group.mend()


def init(url: str) -> None:
    """State that nothing is locked: otherwise each test would wait for the restart guard."""
    with rlock.Client([url], TTL, max_ttl=TTL) as client:
        assert not any(client.init().values())


def refused(client: rlock.Client, why: str) -> str:
    """Nobody can have the lock "x", for this reason; the text of the error.

    Asked again on a busy machine: of a round that its deadline cut short the error tells no more.
    """
    deadline = time.monotonic() + 10.0
    while True:
        with pytest.raises(rlock.QuorumUnreachableError) as told:
            client.lock("x").acquire(blocking=False)
        if why in str(told.value):
            return str(told.value)
        assert time.monotonic() < deadline, f"{why!r} is not in {str(told.value)!r}"
        time.sleep(0.1)
