"""The programs of examples/, and the recipes of docs/fencing.md, as they stand there: on real masters."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

import pytest

import rlock

from ..cli.shell import line
from ..lock.conftest import MakeClient, in_thread
from ..lock.conftest import make_client as make_client
from ..servers import Fleet
from . import pages
from .pages import PYTHON, TOP, Start, module, starter, told

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


def test_the_cron_job_is_skipped_while_another_machine_runs_it(start: Start, client: rlock.Client) -> None:
    with client.lock("nightly-report"):
        assert "skipped" in told(start("cron_job.py"), 75)
    assert told(start("cron_job.py")) == "report of orders\nreport of invoices\n"


def test_two_workers_do_each_job_once(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    workers = [start("fenced_worker.py") for _ in range(2)]
    done = [int(job) for worker in workers for job in re.findall(r"\b\d+\b", told(worker))]
    assert sorted(done) == list(range(20))
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT id, result, fence FROM jobs").fetchall()
    assert all(result == f"result of {job}" and fence for job, result, fence in rows)


def test_a_second_request_for_an_order_is_refused(start: Start) -> None:
    server = start("web_handler.py", "--port", "0")
    url = f"http://127.0.0.1:{line(server).split()[-1]}/orders/"
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
    assert told(start("long_job.py", "--steps", "3")) == "step 0\nstep 1\nstep 2\nfinished\n"
    lost = start("long_job.py", "--steps", "100000")
    assert line(lost) == "step 0\n"
    assert client.evict("long-job")
    shown = told(lost, 76)
    assert "alarm in rlock-on-lost" in shown
    assert "stopped: an operator evicted it" in shown or "stopped: a quorum" in shown


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


PAGE = pages.DOCS / "fencing.md"

#: A worker and a look for each recipe: `work(client, pause, add)` adds to the value under the lock, and calls
#: `pause` between the acquire and the write. In source, because another process runs it, too.
DRIVERS = {
    "row": """
def database():
    return contextlib.closing(sqlite3.connect("data.db"))

def prepare():
    with database() as db:
        db.execute(TABLE)
        write(db, UPSERT, "a", 100, 0)

def work(client, pause, add):
    def compute(price):
        pause()
        return price + add
    with database() as db:
        return reprice(client, db, "a", compute)

def value():
    with database() as db:
        return db.execute("SELECT price FROM items").fetchone()[0]
""",
    "job": """
class Connection(sqlite3.Connection):
    pause = staticmethod(lambda: None)
    def __enter__(self):
        self.pause()
        return super().__enter__()

def database():
    return contextlib.closing(sqlite3.connect("data.db", factory=Connection))

def prepare():
    with database() as db, db:
        db.execute(TABLE)
        db.execute("CREATE TABLE totals (total INTEGER)")
        db.execute("INSERT INTO totals VALUES (100)")

def work(client, pause, add):
    with database() as db:
        db.pause = pause
        return run(client, db, "a", lambda db: db.execute("UPDATE totals SET total = total + ?", (add,)))

def value():
    with database() as db:
        return db.execute("SELECT total FROM totals").fetchone()[0]
""",
    "file": """
def prepare():
    replace("data", b"100", 0)

def work(client, pause, add):
    def change(data):
        pause()
        return b"%d" % (int(data) + add)
    return rewrite(client, "data", change)

def value():
    with open("data", "rb") as file:
        return int(file.read())
""",
    "client": """
def prepare():
    send(os.environ["STORE_URL"], 0, b"100")

def work(client, pause, add):
    def compute(body):
        pause()
        return b"%d" % (int(body) + add)
    return change(client, os.environ["STORE_URL"], compute)

def value():
    with urllib.request.urlopen(os.environ["STORE_URL"]) as answer:
        return int(answer.read())
""",
}
LOCKS = {"row": "items:a", "job": "a", "file": "file:data"}


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``ready(name)``: a recipe in an empty directory, its value 100."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:

        def make(name: str) -> Any:
            lock_name = LOCKS.get(name)
            if name == "client":
                application = module(pages.block(PAGE.name, "server")).application
                server = stack.enter_context(make_server("127.0.0.1", 0, application, Server))
                threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                stack.callback(server.shutdown)
                lock_name = f"http://127.0.0.1:{server.server_port}/price"
                monkeypatch.setenv("STORE_URL", lock_name)
            made = module(pages.block(PAGE.name, name) + "import contextlib, os, sqlite3\n" + DRIVERS[name])
            made.prepare()
            made.lock_name = lock_name
            return made

        yield make


def nothing() -> None: ...


@pytest.mark.parametrize("name", DRIVERS)
def test_one_who_was_overtaken_is_refused_and_changes_nothing_and_can_begin_again(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe, inner = ready(name), list[bool]()
    client, other = make_client(masters3.urls), make_client(masters3.urls)

    def later() -> None:
        assert other.evict(recipe.lock_name)
        assert recipe.work(other, nothing, 1000) is True

    assert recipe.work(client, lambda: in_thread(later), 1) is False
    assert recipe.value() == 1100
    # A nested write of the same holder is accepted.
    assert recipe.work(client, lambda: inner.append(recipe.work(client, nothing, 5)), 1) is True
    assert inner == [True]
