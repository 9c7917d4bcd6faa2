"""rlock in the tasks of Celery: in worker processes (prefork) and in greenlets."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import rlock

from ..docs.pages import PYTHON, starter
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from .programs import assert_nothing_is_left, blocks, needs

celery = pytest.importorskip("celery", reason="celery is in the extra test")

#: More, in the module of the page. The first lines use the client in the parent, before any fork.
MORE = """
with client.lock("early"):
    pass

@app.task
def keep(path):
    Path(path).write_text(str(client.lock("kept").acquire(timeout=5.0)))
"""


@pytest.mark.parametrize("pool", ["prefork", pytest.param("gevent", marks=needs("gevent"))])
def test_a_worker_runs_the_task_of_the_page_and_its_end_frees_what_it_holds(
    pool: str, tmp_path: Path, fresh_masters: FreshMasters
) -> None:
    fleet = fresh_masters(4)
    masters, broker = fleet(3), fleet[3].url
    total, kept = tmp_path / "total", tmp_path / "kept"
    total.write_text("5")
    (tmp_path / "work.py").write_text(blocks()["tasks.py"] + MORE)
    command = f"-m celery -A work worker --loglevel=ERROR -n test@localhost -c 3 -P {pool}"
    told = {"BROKER": broker, "RLOCK_RESTART_GUARD": "0", "RLOCK_TTL": "10"}
    app = celery.Celery("sender", broker=broker)
    with app, starter(tmp_path, masters.urls, **told) as start:
        worker = start(PYTHON, *command.split())
        app.send_task("work.add", (str(total), 7))
        assert eventually(lambda: total.read_text() == "12", 30.0)
        # The handler of the page frees what a worker holds at its end.
        app.send_task("work.keep", (str(kept),))
        assert eventually(lambda: kept.exists() and kept.read_text() == "True")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    with rlock.Client(masters.urls, 3.0, restart_guard=0) as client:
        assert client.lock("kept").acquire(timeout=0.8)
    assert_nothing_is_left(masters)
