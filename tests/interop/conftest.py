"""``redisson``: the command of a Java with Redisson on its class path; skipped where it cannot be built."""

from __future__ import annotations

import pytest

from bench.harness import builds
from bench.harness.builds import Broken
from bench.harness.worker import Failed


@pytest.fixture(scope="session")
def redisson() -> list[str]:
    try:
        *java, _ = builds.command("java")
    except Broken:
        raise
    except Failed as why:
        pytest.skip(str(why))
    return java
