"""CPython's own tests of RLock and Condition, as they stand, on 1, 3 and 5 real masters, and in memory.

Those of RLock also with asyncio, for tasks. asyncio.Condition takes no lock that is awaited to be released.

`test.lock_tests` belongs to the standard library; nothing of it is changed or left out.
"""

from __future__ import annotations

import itertools
import threading

import pytest

import rlock

from .conftest import KINDS, eventually

lock_tests = pytest.importorskip("test.lock_tests", reason="this Python has no test package")
support = pytest.importorskip("test.support", reason="this Python has no test package")

_names = itertools.count()


class OnMasters:
    """Gives the standard library's test cases locks of ours, and a client that ends with each test."""

    masters = 0
    kind = KINDS["blocking"]
    urls: list[str]
    client: rlock.Client

    @pytest.fixture(autouse=True)
    def _started(self, request: pytest.FixtureRequest) -> None:
        type(self).urls = request.getfixturevalue(self.kind.masters)(self.masters).urls

    def setUp(self) -> None:
        self.kind.client(["redis://127.0.0.1:1"], ttl=2.0).close()  # what is started once for all tests
        super().setUp()  # type: ignore[misc]
        support.environment_altered = False
        self.client = self.kind.client(self.urls, ttl=2.0)
        self.client.lock("held").acquire()  # otherwise the watchdog could start while a test counts threads
        tasks = self.kind is KINDS["asyncio"]
        assert eventually(lambda: tasks or "rlock-watchdog" in [each.name for each in threading.enumerate()])

    def tearDown(self) -> None:
        self.client.close()
        super().tearDown()  # type: ignore[misc]
        # The standard library only warns of threads that were left; here they are a failure.
        assert not support.environment_altered, "threads were left"

    def locktype(self) -> rlock.RLock:
        return self.client.lock(f"cpython-{next(_names)}")

    def condtype(self, lock: threading.Lock | None = None) -> threading.Condition:
        return threading.Condition(lock or self.locktype())


class TestRLockOn5(OnMasters, lock_tests.RLockTests):  # type: ignore[misc,name-defined]
    masters = 5


class TestRLockInMemory(OnMasters, lock_tests.RLockTests):  # type: ignore[misc,name-defined]
    masters = 3
    kind = KINDS["memory"]


class TestRLockWithTasks(OnMasters, lock_tests.RLockTests):  # type: ignore[misc,name-defined]
    masters = 3
    kind = KINDS["asyncio"]


class TestConditionOn5(OnMasters, lock_tests.ConditionTests):  # type: ignore[misc,name-defined]
    masters = 5
