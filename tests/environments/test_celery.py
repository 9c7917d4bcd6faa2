"""rlock in the tasks of Celery: in worker processes (prefork) and in greenlets."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rlock

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet
from .programs import COMMON, Program, assert_nothing_is_left, blocks, needs

pytestmark = needs("celery")

#: More tasks, in the module of the page. The first lines use the client in the parent, before any fork.
MORE = """
from celery.signals import worker_ready

with client.lock("early"):
    pass

@worker_ready.connect
def ready(**_):
    Path("ready").touch()

@app.task
def keep(path):
    Path(path).write_text(str(client.lock("kept").acquire(timeout=5.0)))
"""

#: Sends what it reads from stdin; so that Celery stays out of pytest.
SENDER = """
import work
tell(ready=True)
for line in sys.stdin:
    name, arguments, options = json.loads(line)
    getattr(work, name).apply_async(arguments, **options)
    tell(sent=name)
"""


class Worker:
    """A Celery worker, and somebody who sends it tasks."""

    def __init__(self, folder: Path, masters: Fleet, broker: str, *options: str) -> None:
        self.folder = folder
        self.masters = masters
        (folder / "tasks.py").write_text(blocks()["tasks.py"])
        (folder / "work.py").write_text(COMMON + blocks()["tasks.py"] + MORE)
        more = {"BROKER": broker, "RLOCK_RESTART_GUARD": "0"}
        command = ["-m", "celery", "-A", "work", "worker", "--loglevel=ERROR", "-n", "test@localhost"]
        self.worker = Program("", masters.urls, cwd=folder, command=[*command, *options], **more)
        self.sender = Program(SENDER, masters.urls, cwd=folder, **more)

    def wait_until_ready(self) -> None:
        assert self.sender.facts() == {"ready": True}
        assert eventually((self.folder / "ready").exists, 30.0), "the worker does not start"

    def send(self, name: str, *arguments: object, **options: object) -> None:
        self.sender.say(
            json.dumps([name, [str(a) if isinstance(a, Path) else a for a in arguments], options])
        )
        assert self.sender.facts() == {"sent": name}

    def terminate(self) -> int:
        self.worker.process.send_signal(signal.SIGTERM)
        return self.worker.end()

    def close(self) -> None:
        self.sender.close()
        if self.worker.process.poll() is None:
            self.terminate()
        self.worker.close()


@contextmanager
def working(folder: Path, fresh_masters: FreshMasters, *options: str) -> Iterator[Worker]:
    fleet = fresh_masters(4)
    worker = Worker(folder, fleet(3), fleet[3].url, *options)
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.close()


@pytest.mark.parametrize("pool", ["prefork", pytest.param("gevent", marks=needs("gevent"))])
def test_a_worker_runs_the_task_of_the_page_and_its_end_frees_what_it_holds(
    pool: str, tmp_path: Path, fresh_masters: FreshMasters
) -> None:
    """One start of Celery for all of it."""
    with working(tmp_path, fresh_masters, "-P", pool, "-c", "3") as worker:
        # The task of the page.
        total, kept = tmp_path / "total", tmp_path / "kept"
        total.write_text("5")
        worker.send("add", total, 7)
        assert eventually(lambda: total.read_text() == "12")
        # The handler of the page frees what a worker holds at its end.
        worker.send("keep", kept)
        assert eventually(lambda: kept.exists() and kept.read_text() == "True")
        assert worker.terminate() == 0
        with rlock.Client(worker.masters.urls, 3.0, restart_guard=0) as client:
            assert client.lock("kept").acquire(timeout=0.8)
        assert_nothing_is_left(worker.masters)
