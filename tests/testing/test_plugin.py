"""The fixtures for pytest, in runs of their own."""

from __future__ import annotations

import pytest

import rlock
from rlock.testing.local.embedded import ServerBinary

from ..servers import Fleet, raw

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each test starts pytest, which starts masters

CONFTEST = 'pytest_plugins = ["rlock.testing.plugin"]'


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("RLOCK_TEST_MASTERS", raising=False)
    pytester.makeconftest(CONFTEST)
    return pytester


TESTS = """
    def test_three_masters(rlock_masters, rlock_client):
        assert len(rlock_masters) == len(rlock_client.masters) == {count}
        rlock_client.lock("left").acquire()
        other = __import__("rlock").Client(rlock_masters)
        other.lock("by another", renew=False).acquire()
        other._engine().abandon()

    def test_nothing_is_left(rlock_client):
        for name in ("left", "by another"):
            assert rlock_client.lock(name).acquire(blocking=False)

    def test_in_memory(rlock_memory_masters, rlock_memory_client):
        assert rlock_memory_client.masters[0].startswith("memory:")
        assert rlock_memory_client.lock("left").acquire()
        other = __import__("rlock.testing").testing.memory_client(masters=rlock_memory_masters)
        other.lock("x", renew=False).acquire()
        other._engine().abandon()

    def test_in_memory_too(rlock_memory_masters, rlock_memory_client):
        import asyncio, rlock.asyncio
        from rlock.testing import memory_client

        async def taken():
            async with memory_client(masters=rlock_memory_masters, kind=rlock.asyncio.Client) as client:
                return await client.lock("x").acquire(blocking=False)

        assert asyncio.run(taken()), "another test has left it"
        with rlock_memory_client.lock("x"):
            assert not asyncio.run(taken()), "they are on different masters"

    def test_recipes_in_memory(rlock_memory_client):
        with rlock_memory_client.leader("beat") as leader:
            assert leader.wait(timeout=20)
            with rlock_memory_client.semaphore("gpu", permits=1), rlock_memory_client.locks(["a", "b"]):
                assert leader.token
"""


@pytest.mark.parametrize(("ini", "count"), [("", 3), ("1", 1)])
def test_masters_are_started_and_empty_for_each_test(
    run: pytest.Pytester, ini: str, count: int, server: ServerBinary
) -> None:
    if ini:
        run.makeini(f"[pytest]\nrlock_test_masters = {ini}\n")
    run.makepyfile(TESTS.format(count=count))
    run.runpytest_subprocess("--strict-config", "-p", "no:cacheprovider").assert_outcomes(passed=5)


def test_masters_that_are_named_are_used_and_never_flushed(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, masters3: Fleet
) -> None:
    raw(masters3.urls[0]).set("somebody's", "data")
    monkeypatch.setenv("RLOCK_TEST_MASTERS", ",".join(masters3.urls))
    run.makeini("[pytest]\nrlock_test_masters = 5\n")
    run.makepyfile(f"""
        def test_it(rlock_masters, rlock_client):
            assert rlock_masters == {masters3.urls!r}
            assert rlock_client.lock("x").acquire()
    """)
    run.runpytest_subprocess().assert_outcomes(passed=1)
    assert raw(masters3.urls[0]).get("somebody's") == "data"
    with rlock.Client(masters3.urls) as client:
        assert client.lock("x").acquire(blocking=False), "the fixture's client was not closed"
