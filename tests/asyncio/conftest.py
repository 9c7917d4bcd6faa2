"""Event loops for the tests of rlock.asyncio, and what they look with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from ..servers import Fleet
from .eyes import Eyes

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of a module that says `EVERY_LOOP = True` run in both event loops."""
    if "run" in metafunc.fixturenames:
        every = getattr(metafunc.module, "EVERY_LOOP", False)
        loops = ["asyncio", *([pytest.param("uvloop", marks=pytest.mark.slow)] if every else [])]
        metafunc.parametrize("run", loops, indirect=True)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """``asyncio.run`` of an event loop."""
    if request.param == "asyncio":
        return asyncio.run
    uvloop = pytest.importorskip("uvloop", reason="uvloop is in the group test-all")
    found: Run = uvloop.run
    return found


@pytest.fixture
def eyes(masters: Fleet) -> Iterator[Eyes]:
    """Looks into the first three masters."""
    eyes = Eyes(masters(3).urls)
    yield eyes
    eyes.close()


@pytest.fixture
def eyes1(masters: Fleet) -> Iterator[Eyes]:
    """Looks into the first master."""
    eyes = Eyes(masters(1).urls)
    yield eyes
    eyes.close()
