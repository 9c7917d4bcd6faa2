"""``redisson``: the command of a Java with Redisson on its class path; skipped where it cannot be built.

And the workers of contestants of the bench, as processes that a test drives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bench.harness import builds
from bench.harness.builds import Broken
from bench.harness.contestants import select
from bench.harness.worker import Failed, Worker

TTL_MS = 2000
#: A JVM that starts, and warms up, while the machine has other work.
OPEN_S = 90.0


def built(environment: str) -> list[str]:
    """The command of its program; the test is skipped where it cannot be built, without a network say."""
    try:
        return builds.command(environment)
    except Broken:
        raise
    except Failed as why:
        pytest.skip(f"{environment}: {why}")


def opened(key: str, urls: Sequence[str], **more: Any) -> Worker:
    """Its process, connected to the masters; ``more`` are fields of its `open` request."""
    (found,) = select([key])
    built(found.environment)
    worker = found.start()
    try:
        worker.ask("open", OPEN_S, **{**found.opening(urls, TTL_MS), **more})
    except BaseException:
        worker.close()
        raise
    return worker


@pytest.fixture(scope="session")
def redisson() -> list[str]:
    *java, _ = built("java")
    return java
