"""Fleets in memory, and what they cost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import rlock
from rlock.testing import MemoryMasters, memory_client


@pytest.fixture
def fleet() -> MemoryMasters:
    return MemoryMasters(3)


@pytest.fixture
def client(fleet: MemoryMasters) -> Iterator[rlock.Client]:
    with memory_client(masters=fleet) as client:
        yield client


@pytest.fixture(params=["eventfd", "pipe"])
def any_bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
