"""Java and Python processes contend for one lock, and two never have it at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rlock.testing.contention.checker import overlaps
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.contention.worker import Load

from ..conftest import FreshMasters
from ..servers import AnyMaster, Fleet
from .building import Build
from .conftest import MakeJvm
from .jvm import Jvm

NAME = "contest"
SECONDS = 3.0
JAVAS, JAVA_THREADS, PYTHONS = 2, 2, 4
HOLD_MS = 1
#: After its time a worker waits for the lock once more, at worst for a lease of Redisson's.
END_S = 60.0


def contest(make: MakeJvm, masters: Sequence[AnyMaster], folder: Path, name: str = NAME) -> History:
    """Let the processes contend, Python for the lock of this name; the history of both sides."""
    urls = [master.url for master in masters]
    with ExitStack() as stack:
        clients = [make().client(urls, watchdog_ms=3000, timeout_ms=500, retries=1) for _ in range(JAVAS)]
        environment = {**os.environ, "RLOCK_MASTERS": ",".join(urls), "RLOCK_INTEROP": "redisson"}
        pythons = WorkerProcesses(PYTHONS, folder, environment)
        stack.callback(pythons.end)
        pythons.wait(END_S)
        Counter(folder / "counter")  # Java expects a counter that exists
        counter = str(folder / "counter")
        done = [
            client.contend(
                name=NAME,
                label=f"java-{i}",
                threads=JAVA_THREADS,
                folder=str(folder),
                counter=counter,
                ms=int(SECONDS * 1000),
                hold_ms=HOLD_MS,
                # Java has CLOCK_MONOTONIC, the journals have CLOCK_BOOTTIME.
                clock_ns=now_ns() - time.monotonic_ns(),
            )
            for i, client in enumerate(clients)
        ]
        hold = (HOLD_MS / 1000, HOLD_MS / 1000)
        load = Load(name, hold=hold, counter=counter, end_at=now_ns() + int(SECONDS * SECOND))
        for python in pythons.workers:
            python.order(load)
        for future in done:
            future.result(SECONDS + END_S)
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


def test_never_two_at_once(masters3: Fleet, fresh_jvm: MakeJvm, redisson: Build, tmp_path: Path) -> None:
    history = contest(fresh_jvm, masters3.masters, tmp_path)
    judge(history, tmp_path)
    assert history.errors == []


def test_never_two_at_once_while_one_of_three_masters_dies(
    fresh_masters: FreshMasters, fresh_jvm: MakeJvm, redisson: Build, tmp_path: Path
) -> None:
    fleet = fresh_masters(3)

    def kill() -> None:
        while not (tmp_path / "java-0-0.jsonl").exists():
            time.sleep(0.02)
        time.sleep(SECONDS / 2)
        fleet[0].kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    judge(contest(fresh_jvm, fleet.masters, tmp_path), tmp_path)
    killer.join(10)
    assert not fleet[0].running


def test_the_contest_notices_two_locks_where_one_should_be(
    masters1: Fleet, fresh_jvm: MakeJvm, redisson: Build, tmp_path: Path
) -> None:
    history = contest(fresh_jvm, masters1.masters, tmp_path, "another lock")
    assert overlaps(history.holds)
    assert lost_updates(history, tmp_path)


def test_java_reads_the_clock_that_python_reads(jvm: Jvm) -> None:
    before = time.monotonic_ns()
    told = jvm.clock()
    assert before <= told <= time.monotonic_ns(), "two clocks: no journal can be compared"
