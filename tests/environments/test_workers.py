"""rlock in the workers of gunicorn, with preload_app, and of Celery, as processes and as greenlets."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlock

from ..docs.pages import PYTHON, starter
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet
from .programs import COMMON, ORDINARY, assert_nothing_is_left, blocks, counter, gunicorn, needs, program

#: More to ask for, around the application of the page. Its first lines run in the arbiter, before the fork.
MORE = """
with client.lock("early"):
    pass
parent = client.lock("parent")
parent.acquire()
page = app

def app(environ, start_response):
    what, _, rest = environ["PATH_INFO"].strip("/").partition("/")
    if what == "total":
        return page(environ, start_response)
    facts = {"pid": os.getpid()}
    if what == "bump":
        count("count", int(rest), client.lock("x"))
    elif what == "look":
        owned = [parent.is_owned(), parent.hold_count]
        facts |= {"owned": owned, "taken": quiet(parent.acquire, blocking=False)}
        facts |= {"release": quiet(parent.release)}
    elif what == "hold":
        with client.lock("held"):
            Path("has").touch()
            time.sleep(float(rest))
        Path("done").touch()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(facts).encode()]
"""


@needs("gunicorn")
@pytest.mark.parametrize("kind", ["sync", "gthread", pytest.param("gevent", marks=needs("gevent"))])
def test_workers_of_a_preloaded_application(kind: str, tmp_path: Path, masters3: Fleet) -> None:
    path = counter(tmp_path)
    (tmp_path / "total").write_text("41")
    (tmp_path / "web.py").write_text(COMMON + blocks()["app.py"] + MORE)
    options = f"-w 2 -k {kind} {'--threads 3' if kind == 'gthread' else ''} web:app"
    with (
        starter(tmp_path, masters3.urls, RLOCK_TTL="3") as start,
        rlock.Client(masters3.urls, 3.0) as client,
        ThreadPoolExecutor(8) as browsers,
    ):
        arbiter, get = gunicorn(start, options, "pid")
        assert get("total") == b"42"

        # Requests in two workers and an ordinary process, at the same time.
        with program(ORDINARY, masters3.urls, "x", path, 40) as process:
            list(browsers.map(get, ["bump/10"] * 8))
            assert process.end() == 0
        assert int(path.read_bytes()) == 8 * 10 + 40

        # The arbiter holds a lock since before the fork. Its workers hold nothing, and do no harm.
        looked = get("look")
        assert b'"owned": [false, 0], "taken": false, "release": "NotHeldError"' in looked
        if kind == "sync":
            time.sleep(3.5)  # longer than its ttl
        assert client.lock("parent").acquire(blocking=False) is False

        # SIGTERM: what is under way finishes, the lock with it; what the arbiter holds is freed with it.
        slow = browsers.submit(get, "hold/1.0")
        assert eventually((tmp_path / "has").exists)
        arbiter.send_signal(signal.SIGTERM)
        assert arbiter.wait(30) is not None
        slow.result()
        assert (tmp_path / "done").exists()
        for name in ("held", "parent"):
            assert client.lock(name).acquire(timeout=0.8), name
            client.lock(name).release()
    assert_nothing_is_left(masters3)


#: More, in the module of the page. The first lines use the client in the parent, before any fork.
TASKS = """
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
    celery = pytest.importorskip("celery", reason="celery is in the extra test")
    fleet = fresh_masters(4)
    masters, broker = fleet(3), fleet[3].url
    total, kept = tmp_path / "total", tmp_path / "kept"
    total.write_text("5")
    (tmp_path / "work.py").write_text(blocks()["tasks.py"] + TASKS)
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
