"""``redisson``: the command of a Java with Redisson on its class path; skipped where it cannot be built."""

from __future__ import annotations

import pytest

from .workers import built


@pytest.fixture(scope="session")
def redisson() -> list[str]:
    *java, _ = built("java")
    return java
