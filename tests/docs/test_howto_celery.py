"""docs/howto/celery.md: its tasks in a real worker, prefork, with one master's server as the broker."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .pages import PYTHON, lay_out, starter

celery = pytest.importorskip("celery", reason="celery is in the extra test")

PAGE = "howto/celery.md"


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


def test_a_second_task_is_skipped_or_tried_later_and_the_lease_outlives_a_long_one(
    masters3: Fleet, fresh_masters: FreshMasters, tmp_path: Path
) -> None:
    broker = fresh_masters(1)[0].url
    changes = {"tasks.py": ("countdown=30", "countdown=1"), "work.py": ("range(30)", "range(20)")}
    lay_out(PAGE, tmp_path, changes)
    with (tmp_path / "work.py").open("a") as file:
        file.write(NOTED)
    log, notes = tmp_path / "worker.log", tmp_path / "notes"
    notes.touch()
    command = "-m celery -A tasks worker -c 2 -l INFO --without-gossip --without-mingle -E"
    told = {"BROKER_URL": broker, "RESULT_URL": f"{broker}/1"}
    with (
        celery.Celery("sender", broker=broker) as app,
        raw(f"{broker}/1") as backend,
        starter(tmp_path, masters3.urls, **told) as start,
        log.open("a") as file,
    ):

        def send(task: str, *args: Any) -> str:
            ident: str = app.send_task(task, args).id
            return ident

        def result(ident: str) -> Any:
            """What the task has returned; read from the broker's server, so that no result waits on it."""

            def done() -> Any:
                meta = json.loads(str(backend.get(f"celery-task-meta-{ident}") or "{}"))
                return meta if meta.get("status") in ("SUCCESS", "FAILURE") else None

            found = eventually(done, 30)
            assert found is not None, log.read_text()
            assert found["status"] == "SUCCESS", found
            return found["result"]

        worker = start(PYTHON, *command.split(), stdout=file)
        first = send("tasks.report", 7)
        assert eventually(lambda: "begin 7" in notes.read_text(), 40), log.read_text()
        second = send("tasks.report", 7)
        assert result(second) is None
        assert "end 7" not in notes.read_text(), "it was not busy any more"
        rebuilds = [send("tasks.rebuild", "a") for _ in range(2)]
        other = send("tasks.report", 8)
        assert (result(first), result(other)) == ("report 7", "report 8")
        assert [result(one) for one in rebuilds] == ["index a", "index a"]
        assert "was skipped" in log.read_text()
        built = [line.split()[0] for line in notes.read_text().splitlines() if " a " in line]
        assert built == ["begin", "end", "begin", "end"], "two have built at a time"
        # A warm shutdown ends the task that is on, with its lock.
        last = send("tasks.report", 9)
        assert eventually(lambda: "begin 9" in notes.read_text(), 20)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
        assert result(last) == "report 9"
        assert "end 9" in notes.read_text()
