"""docs/howto/testing.md: its files, as they stand, are a project whose tests pass; and can fail."""

from __future__ import annotations

import pytest

from rlock.testing.local.embedded import ServerBinary

from .pages import blocks

pytest_plugins = ["pytester"]

FILES = blocks("howto/testing.md")
#: What a reader may break in the code under test, and the tests of the page that notice.
BREAKS = {
    "no lock": ("if not lock.acquire(timeout=0.1):", "if False:", 1),
    "no answer to a missing quorum": ("except rlock.QuorumUnreachableError", "except ZeroDivisionError", 1),
}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("RLOCK_TEST_MASTERS", raising=False)
    for name, text in FILES.items():
        pytester.path.joinpath(name).write_text(text, encoding="utf-8")
    return pytester


def test_the_tests_of_the_page_pass(project: pytest.Pytester, server: ServerBinary) -> None:
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=9)


@pytest.mark.parametrize("what", BREAKS)
def test_they_fail_when_the_code_under_test_is_broken(project: pytest.Pytester, what: str) -> None:
    old, new, failures = BREAKS[what]
    assert old in FILES["shop.py"]
    project.path.joinpath("shop.py").write_text(FILES["shop.py"].replace(old, new), encoding="utf-8")
    result = project.runpytest_subprocess("test_in_memory.py", "test_errors.py")
    assert result.parseoutcomes().get("failed", 0) >= failures
