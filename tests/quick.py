"""The quick set of tests, `make test`: docs/contributing/tests.md states the rule, this module applies it.

Every test outside the quick set has the marker ``slow``. So ``-m "not slow"`` and ``-m slow`` are two halves
of the suite, and no test is in both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOP = HERE.parent
#: The folders of the quick set.
FOLDERS = {
    "tests/asyncio",
    "tests/compat",
    "tests/core",
    "tests/fuzz",
    "tests/lock",
    "tests/repository",
    "tests/scripts",
    "tests/testing",
    "evidence/bugs",
    "evidence/hunt",
    "evidence/interrupts",
    "evidence/simulation",
}
#: Files in them that need other people's software, or many processes for many seconds.
SLOW_FILES = {"tests/repository/test_packaging.py"}
#: Only tests of these folders may be marked `timing`, which gives them a second try in .ci/run. A
#: failure in another folder may be a broken promise of the lock, and a second try would hide it.
MAY_MEASURE = {"tests/asyncio", "tests/bench", "tests/cli", "tests/telemetry"}


def _folder(path: Path) -> str:
    return "/".join(path.relative_to(TOP).parts[:2])


def is_slow(path: Path) -> bool:
    """Whether no test of this file or folder is in the quick set."""
    return _folder(path) not in FOLDERS or path.relative_to(TOP).as_posix() in SLOW_FILES


def mark(items: list[pytest.Item]) -> None:
    """Mark the tests outside the quick set."""
    for item in items:
        timing = item.get_closest_marker("timing")
        if timing and _folder(item.path) not in MAY_MEASURE:
            raise pytest.UsageError(f"{item.nodeid}: a test of this folder has no second try, unmark it")
        if timing or is_slow(item.path):
            item.add_marker(pytest.mark.slow)
