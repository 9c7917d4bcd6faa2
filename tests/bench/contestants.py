"""What the tests of contestants share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.harness.contestants import Contestant, prepare, select
from bench.harness.worker import Worker

TTL_MS = 2000


def contestant(key: str) -> Contestant:
    """The contestant with this key; the test is skipped where it cannot be built, without a network say."""
    (found,) = select([key])
    if reasons := prepare([found]):
        pytest.skip(f"{key}: {reasons[key]}")
    return found


def opened(key: str, urls: Sequence[str]) -> Worker:
    """Its process, connected to the masters."""
    found = contestant(key)
    worker = found.start()
    try:
        worker.ask("open", 30.0, **found.opening(urls, TTL_MS))
    except BaseException:
        worker.close()
        raise
    return worker
