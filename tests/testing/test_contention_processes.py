"""The contending processes of the kit, on real masters: orders, journals, kills, ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlock.testing.contention.checker import judge_safety
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.contention.worker import Load

from ..servers import Fleet, gone

START_S = 30.0


@pytest.fixture
def workers(masters3: Fleet, tmp_path: Path) -> Iterator[WorkerProcesses]:
    environment = {**os.environ, "RLOCK_MASTERS": ",".join(masters3.urls), "RLOCK_TTL": "2"}
    made = WorkerProcesses(2, tmp_path, environment)
    try:
        made.wait(START_S)
        yield made
    finally:
        made.end()


def order(workers: WorkerProcesses, load: Load | None) -> None:
    for worker in workers.alive:
        worker.order(load)


def until(workers: WorkerProcesses, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
        workers.read()


@pytest.mark.parametrize("fair", [False, True])
def test_all_threads_of_all_processes_get_the_lock_and_lose_no_update(
    workers: WorkerProcesses, tmp_path: Path, fair: bool
) -> None:
    counter = tmp_path / "counter"
    end_at = now_ns() + 2 * SECOND
    load = Load("x", (0.001, 0.002), threads=2, fair=fair, nesting=2, counter=str(counter), end_at=end_at)
    order(workers, load)
    workers.wait(START_S)
    history = workers.history
    history.horizon = now_ns()
    assert not judge_safety(history)
    assert len({hold.contender for hold in history.holds}) == 4
    assert all(1 <= len(hold.nested) <= 2 for hold in history.holds)
    count = Counter(counter).count()
    assert count.value == count.acknowledged == len(history.holds) > 10
    assert not history.open


def test_a_killed_worker_leaves_its_hold_open(workers: WorkerProcesses) -> None:
    victim, other = workers.workers
    victim.order(Load("x", (3600.0, 3600.0)))
    until(workers, lambda: workers.inside(victim))
    killed_at = victim.kill()
    other.order(Load("x", end_at=killed_at + SECOND // 2))
    workers.wait(START_S)
    workers.history.horizon = now_ns()
    assert not judge_safety(workers.history)
    killed, *_ = workers.history.holds
    assert (killed.process, killed.left_at, workers.alive) == (victim.name, None, [other])
    assert killed.valid_to > killed_at


def test_the_end_of_its_orders_ends_a_long_hold(workers: WorkerProcesses) -> None:
    holder = workers.workers[0]
    holder.order(Load("x", (3600.0, 3600.0)))
    until(workers, lambda: workers.inside(holder))
    workers.end()
    assert all(gone(worker.pid) for worker in workers.workers)
    history = workers.history.take(workers.folder)
    assert history.ended == {worker.name for worker in workers.workers}
    assert [attempt.outcome for attempt in history.attempts] == ["got"]
