"""docs/howto/celery.md: its tasks in a real worker, prefork, with one master's server as the broker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .pages import PYTHON, Start, lay_out, starter

celery = pytest.importorskip("celery", reason="celery is in the extra test")

PAGE = "howto/celery.md"


class Shop:
    """The files of the page, a broker, and workers."""

    def __init__(self, folder: Path, start: Start, broker: str, app: Any) -> None:
        self.folder = folder
        self.start = start
        self.broker = broker
        self.app = app

    def worker(self) -> subprocess.Popen[str]:
        """A worker with two processes, ready; its log is in the folder."""
        log = self.folder / "worker.log"
        command = "-m celery -A tasks worker -c 2 -l INFO --without-gossip --without-mingle -E"
        with log.open("a") as file:
            before = log.stat().st_size
            started = self.start(PYTHON, *command.split(), stdout=file)
        assert eventually(lambda: " ready." in log.read_text()[before:], 30), log.read_text()
        return started

    def send(self, task: str, *args: Any) -> str:
        ident: str = self.app.send_task(task, args).id
        return ident

    def result(self, ident: str) -> Any:
        """What the task has returned; read from the broker's server, so that no result waits on it."""
        backend = raw(f"{self.broker}/1")

        def done() -> Any:
            meta = json.loads(str(backend.get(f"celery-task-meta-{ident}") or "{}"))
            return meta if meta.get("status") in ("SUCCESS", "FAILURE") else None

        found = eventually(done, 30)
        backend.close()
        assert found is not None, self.log()
        assert found["status"] == "SUCCESS", found
        return found["result"]

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def ran(self, what: str) -> list[str]:
        """What the work has noted down, of this kind: begin, end."""
        notes = self.folder / "notes"
        lines = notes.read_text().split("\n") if notes.exists() else []
        return [line for line in lines if line.startswith(what)]


#: Around each work of the page: a note when it begins and when it ends.
NOTED = """
import functools
import os


def noted(work):
    @functools.wraps(work)
    def note(key, lock):
        with open("notes", "a") as notes:
            print("begin", key, os.getpid(), lock.fencing_token, file=notes)
        result = work(key, lock)
        with open("notes", "a") as notes:
            print("end", key, os.getpid(), lock.fencing_token, file=notes)
        return result
    return note


make_report, build = noted(make_report), noted(build)
"""


@pytest.fixture
def shop(masters3: Fleet, fresh_masters: FreshMasters, tmp_path: Path) -> Iterator[Shop]:
    broker = fresh_masters(1)[0].url
    lay_out(
        PAGE, tmp_path, {"tasks.py": ("countdown=30", "countdown=1"), "work.py": ("range(30)", "range(20)")}
    )
    with (tmp_path / "work.py").open("a") as file:
        file.write(NOTED)
    app = celery.Celery("sender", broker=broker)
    with starter(tmp_path, masters3.urls, BROKER_URL=broker, RESULT_URL=f"{broker}/1") as start:
        yield Shop(tmp_path, start, broker, app)
    app.close()


def test_a_second_task_is_skipped_or_tried_later_and_the_lease_outlives_a_long_one(shop: Shop) -> None:
    worker = shop.worker()
    first = shop.send("tasks.report", 7)
    assert eventually(lambda: shop.ran("begin 7"), 20), shop.log()
    second = shop.send("tasks.report", 7)
    assert shop.result(second) is None
    assert not shop.ran("end 7"), "it was not busy any more"
    rebuilds = [shop.send("tasks.rebuild", "a") for _ in range(2)]
    other = shop.send("tasks.report", 8)
    assert shop.result(first) == "report 7"
    assert shop.result(other) == "report 8"
    assert [shop.result(one) for one in rebuilds] == ["index a", "index a"]
    assert "was skipped" in shop.log()
    notes = [line.split()[0] for line in (shop.folder / "notes").read_text().splitlines() if " a " in line]
    assert notes == ["begin", "end", "begin", "end"], "two have built at a time"
    # A warm shutdown ends the task that is on, with its lock.
    last = shop.send("tasks.report", 9)
    assert eventually(lambda: shop.ran("begin 9"), 20)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert shop.result(last) == "report 9"
    assert shop.ran("end 9")
