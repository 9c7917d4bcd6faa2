"""Java and Python processes contend for one lock, and two never have it at once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import rlock
from rlock.testing.contention.checker import overlaps
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.contention.worker import Load

from ..lock.conftest import eventually
from ..servers import AnyMaster, Fleet, raw

# The first test of a machine fetches Redisson.
pytestmark = pytest.mark.timeout(600)

NAME = "contest"
CHANNEL = "redisson_lock__channel:{contest}"
SECONDS = 3.0
JAVAS, JAVA_THREADS, PYTHONS = 2, 2, 4
HOLD_S = 0.001
#: After its time a worker waits for the lock once more, at worst for a lease of Redisson's.
END_S = 60.0
#: Small: two of them start on a small machine.
JVM = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
PROGRAM = Path(__file__).with_name("Contest.java")


class Java:
    """A process of `Contest.java`, connected and ready to begin."""

    def __init__(
        self, java: list[str], folder: Path, label: str, urls: Sequence[str], seconds: float = SECONDS
    ) -> None:
        # Java has CLOCK_MONOTONIC, the journals have CLOCK_BOOTTIME.
        clock_ns = now_ns() - time.monotonic_ns()
        words = [folder, folder / "counter", NAME, label, JAVA_THREADS, int(seconds * 1000), clock_ns, *urls]
        self.process = subprocess.Popen(
            [*java, *JVM, str(PROGRAM), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / f"{label}.log").open("wb"),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def wait_until_ready(self) -> None:
        assert self.stdout.readline() == b"ready\n"

    def begin(self) -> None:
        self.stdin.write(b"\n")
        self.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def contest(java: list[str], masters: Sequence[AnyMaster], folder: Path, name: str = NAME) -> History:
    """Let the processes contend, Python for the lock of this name; the history of both sides."""
    urls = [master.url for master in masters]
    Counter(folder / "counter")  # Java expects a counter that exists
    with ExitStack() as stack:
        environment = {**os.environ, "RLOCK_MASTERS": ",".join(urls), "RLOCK_INTEROP": "redisson"}
        pythons = WorkerProcesses(PYTHONS, folder, environment)
        stack.callback(pythons.end)
        javas = []
        for i in range(JAVAS):
            javas.append(Java(java, folder, f"java-{i}", urls))
            stack.callback(javas[-1].close)
        pythons.wait(END_S)
        for each in javas:
            each.wait_until_ready()
        for each in javas:
            each.begin()
        end_at = now_ns() + int(SECONDS * SECOND)
        for python in pythons.workers:
            python.order(Load(name, hold=(HOLD_S, HOLD_S), counter=str(folder / "counter"), end_at=end_at))
        for each in javas:
            each.process.wait(SECONDS + END_S)
        pythons.wait(END_S)
        pythons.end()
    history = pythons.history.take(folder)
    history.horizon = now_ns()
    for attempt in history.attempts:
        attempt.lock = NAME  # the control has two locks, and they are judged as one
    return history


def lost_updates(history: History, folder: Path) -> int:
    updates = sum(hold.left_at is not None for hold in history.holds)
    return updates - Counter(folder / "counter").count().value


def judge(history: History, folder: Path) -> None:
    """The lock excluded everybody, and every contender got it."""
    assert overlaps(history.holds) == []
    assert lost_updates(history, folder) == 0
    assert len(history.ended) == JAVAS * JAVA_THREADS + PYTHONS
    assert {hold.contender for hold in history.holds} == {each.contender for each in history.attempts}
    assert len(history.holds) >= 50


def test_java_is_woken_by_a_release_of_python_and_publishes_its_own(
    masters1: Fleet, redisson: list[str], tmp_path: Path
) -> None:
    (url,) = masters1.urls
    server, lease_s = raw(url), 30.0
    Counter(tmp_path / "counter")
    with (
        rlock.Client([url], lease_s, interop="redisson", max_ttl=lease_s) as client,
        closing(Java(redisson, tmp_path, "java", [url], seconds=0.5)) as java,
        server.pubsub(ignore_subscribe_messages=True) as ear,
    ):
        java.wait_until_ready()
        client.lock(NAME).acquire()
        java.begin()
        assert eventually(lambda: server.pubsub_numsub(CHANNEL)[0][1], 30.0), "Java does not wait"
        time.sleep(0.6)  # the time of its threads is over: each takes the lock once
        ear.subscribe(CHANNEL)
        ear.get_message(timeout=1)
        client.lock(NAME).release()
        # Otherwise Java sleeps to the end of the lease that it was told.
        java.process.wait(lease_s / 3)
        heard = [ear.get_message(timeout=1) for _ in range(1 + JAVA_THREADS)]
    assert [message and message["data"] for message in heard] == ["0"] * (1 + JAVA_THREADS)


def test_never_two_at_once(masters3: Fleet, redisson: list[str], tmp_path: Path) -> None:
    history = contest(redisson, masters3.masters, tmp_path)
    judge(history, tmp_path)
    assert history.errors == []


def test_the_contest_notices_two_locks_where_one_should_be(
    masters1: Fleet, redisson: list[str], tmp_path: Path
) -> None:
    history = contest(redisson, masters1.masters, tmp_path, "another lock")
    assert overlaps(history.holds)
    assert lost_updates(history, tmp_path)
