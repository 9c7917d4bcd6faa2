"""The programs of examples/, run as they stand there on real masters."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import rlock

from ..servers import Fleet
from .pages import PYTHON, TOP, Start, starter

EXAMPLES = TOP / "examples"


@pytest.fixture
def start(masters3: Fleet, tmp_path: Path) -> Iterator[Start]:
    """``start(program, *arguments)``: an example as a process."""
    with starter(tmp_path, masters3.urls) as run:
        yield lambda program, *words: run(PYTHON, "-u", str(EXAMPLES / program), *words)


@pytest.fixture
def client(masters3: Fleet) -> Iterator[rlock.Client]:
    with rlock.Client(masters3.urls) as made:
        yield made


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_cron_job_is_skipped_while_another_machine_runs_it(start: Start, client: rlock.Client) -> None:
    with client.lock("nightly-report"):
        busy = start("cron_job.py")
        assert "skipped" in busy.communicate(timeout=60)[0]
        assert busy.returncode == 75
    free = start("cron_job.py")
    assert free.communicate(timeout=60)[0] == "report of orders\nreport of invoices\n"
    assert free.returncode == 0


def test_two_workers_do_each_job_once(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    workers = [start("fenced_worker.py", str(path)) for _ in range(2)]
    told = [worker.communicate(timeout=60)[0] for worker in workers]
    done = [int(job) for job in re.findall(r"\b\d+\b", "".join(told))]
    assert sorted(done) == list(range(20)), told
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT id, result, fence FROM jobs").fetchall()
    assert all(result == f"result of {job}" and fence for job, result, fence in rows)


def test_a_second_request_for_an_order_is_refused(start: Start) -> None:
    server = start("web_handler.py", "0")
    url = f"http://127.0.0.1:{line(server).rpartition(' ')[2]}/orders/"
    codes: list[int] = []

    def ship(order: str) -> None:
        try:
            with urllib.request.urlopen(url + order, timeout=30) as answer:
                codes.append(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            codes.append(error.code)

    with ThreadPoolExecutor(3) as browsers:
        list(browsers.map(ship, ("42", "42", "43")))
    assert sorted(codes) == [200, 200, 409]


def test_the_long_job_stops_when_its_lock_is_lost(start: Start, client: rlock.Client) -> None:
    done = start("long_job.py", "3")
    assert done.communicate(timeout=60)[0] == "step 0\nstep 1\nstep 2\nfinished\n"
    lost = start("long_job.py", "100000")
    assert line(lost) == "step 0"
    assert client.evict("long-job")
    told = lost.communicate(timeout=60)[0]
    assert lost.returncode == 76
    assert "alarm in rlock-on-lost" in told
    assert "stopped: an operator evicted it" in told or "stopped: a quorum" in told


def test_the_next_process_leads_when_the_leader_is_ended(start: Start) -> None:
    first = start("leader.py")
    tokens = [step_of(first)]
    second = start("leader.py")
    first.terminate()
    tokens.append(step_of(second))
    assert first.wait(30) == 0
    assert tokens == sorted(set(tokens))


def step_of(process: subprocess.Popen[str]) -> int:
    """The token of the next step that this process prints."""
    while (words := line(process).split()) and words[0] != str(process.pid):
        pass
    return int(words[1])
