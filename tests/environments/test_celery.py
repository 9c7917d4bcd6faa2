"""rlock in the tasks of Celery: in worker processes (prefork) and in greenlets."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rlock

from ..lock.conftest import eventually
from ..servers import Fleet
from .programs import COMMON, ORDINARY, Program, assert_nothing_is_left, blocks, counter, needs, program

pytestmark = needs("celery")

FreshMasters = Callable[..., Fleet]

#: More tasks, in the module of the page. The first lines use the client in the parent, before any fork.
MORE = """
from celery.signals import worker_init, worker_ready

with client.lock("early"):
    pass
parent = client.lock("parent")

@worker_init.connect
def hold_in_the_parent(**_):
    parent.acquire()

@worker_ready.connect
def ready(**_):
    Path("ready").touch()

def note(path, **facts):
    Path(path + ".part").write_text(json.dumps(facts))
    os.rename(path + ".part", path)

@app.task
def bump(path, times):
    count(path, times, client.lock("x"))

@app.task
def look(path):
    owned = [parent.is_owned(), parent.hold_count]
    note(path, owned=owned, release=quiet(parent.release), taken=quiet(parent.acquire, blocking=False))

@app.task
def hold(path, seconds):
    with client.lock("held"):
        note(path + ".has", pid=os.getpid())
        time.sleep(seconds)
    note(path, done=True)

@app.task
def keep(path):
    note(path, got=client.lock("kept").acquire(timeout=5.0))
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

    def told(self, path: Path, within: float = 15.0) -> Any:
        assert eventually(path.exists, within), f"no task has written {path.name}"
        return json.loads(path.read_text())

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


def everybody_counts(worker: Worker, folder: Path) -> int:
    """Twelve tasks and an ordinary process, at the same time; what became of 180 updates."""
    path = counter(folder)
    with program(ORDINARY, worker.masters.urls, "x", path, 60, RLOCK_RESTART_GUARD="0") as process:
        for _ in range(12):
            worker.send("bump", path, 10)
        assert process.end() == 0
    eventually(lambda: int(path.read_bytes()) >= 180, 20.0)
    return int(path.read_bytes())


def is_free(client: rlock.Client, name: str, within: float) -> bool:
    lock = client.lock(name)
    got = lock.acquire(timeout=within)
    if got:
        lock.release()
    return got


def test_prefork_workers(tmp_path: Path, fresh_masters: FreshMasters) -> None:
    """One start of Celery for all of it: counting, the parent's hold, a killed worker, warm shutdown."""
    with working(tmp_path, fresh_masters, "-P", "prefork", "-c", "3") as worker:
        with rlock.Client(worker.masters.urls, 3.0, restart_guard=0) as client:
            # The task of the page.
            total = tmp_path / "total"
            total.write_text("5")
            worker.send("add", total, 7)
            assert eventually(lambda: total.read_text() == "12")

            assert everybody_counts(worker, tmp_path) == 180

            # The parent used the client, and holds a lock. Its children hold nothing, and do no harm.
            worker.send("look", tmp_path / "look")
            told = worker.told(tmp_path / "look")
            assert told == {"owned": [False, 0], "release": "NotHeldError", "taken": False}
            time.sleep(3.5)  # longer than its ttl
            assert client.lock("parent").acquire(blocking=False) is False

            # A worker that is killed leaves the lock for a ttl.
            worker.send("hold", tmp_path / "killed", 60)
            os.kill(worker.told(tmp_path / "killed.has")["pid"], signal.SIGKILL)
            began = time.monotonic()
            assert is_free(client, "held", 8.0)
            assert 1.0 < time.monotonic() - began < 5.0

            # Warm shutdown: tasks finish; what a worker still holds is freed by the handler of the page,
            # and what the parent holds by the end of its process.
            worker.send("keep", tmp_path / "kept")
            assert worker.told(tmp_path / "kept") == {"got": True}
            worker.send("hold", tmp_path / "last", 1.0)
            worker.told(tmp_path / "last.has")
            assert worker.terminate() == 0
            assert worker.told(tmp_path / "last") == {"done": True}
            for name in ("kept", "parent", "held"):
                assert is_free(client, name, 0.8), name
        assert_nothing_is_left(worker.masters)


@needs("gevent")
def test_a_pool_of_greenlets(tmp_path: Path, fresh_masters: FreshMasters) -> None:
    with working(tmp_path, fresh_masters, "-P", "gevent", "-c", "6") as worker:
        assert everybody_counts(worker, tmp_path) == 180
        worker.send("keep", tmp_path / "kept")
        assert worker.told(tmp_path / "kept") == {"got": True}
        assert worker.terminate() == 0
        with rlock.Client(worker.masters.urls, 3.0, restart_guard=0) as client:
            assert is_free(client, "kept", 0.8)
        assert_nothing_is_left(worker.masters)
