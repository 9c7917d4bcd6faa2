"""``redisson``: the command of a Java with Redisson on its class path; skipped where it cannot be built.

``node``: Node.js, and the folder from which it finds ioredis and redis-semaphore.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .workers import built


@pytest.fixture(scope="session")
def redisson() -> list[str]:
    *java, _ = built("java")
    return java


@pytest.fixture(scope="session")
def node() -> tuple[str, Path]:
    program, worker = built("node")
    return program, Path(worker).parent
