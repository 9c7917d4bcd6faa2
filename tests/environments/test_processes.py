"""docs/environments.md, and rlock in processes: of multiprocessing, of preloading gunicorn, of Celery."""

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
from .programs import (
    COMMON,
    ORDINARY,
    assert_nothing_is_left,
    blocks,
    counter,
    gunicorn,
    needs,
    outcome,
    program,
)

#: argv: the way of starting.
END = """
import multiprocessing

def hold(lock):
    lock.acquire()

if __name__ == "__main__":
    method = sys.argv[1]
    context = multiprocessing.get_context(method)
    lock = rlock.Client(URLS, 10.0).lock("x")
    lock.locked()  # the client is in use before the child starts
    child = context.Process(target=hold, args=(lock,))
    child.start()
    child.join()
    began = time.monotonic()
    tell(got=lock.acquire(timeout=8.0), after=time.monotonic() - began)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_that_ends_with_the_lock_held_frees_it(method: str, tmp_path: Path, masters3: Fleet) -> None:
    (tmp_path / "end.py").write_text(COMMON + END)  # spawned children have to import it
    told = outcome("", masters3.urls, method, folder=tmp_path, command="end.py")
    assert told["got"] is True
    assert told["after"] < 2.0
    assert_nothing_is_left(masters3)


def test_the_program_of_the_page_adds_up(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(blocks()["pool.py"])
    (tmp_path / "total").write_text("0")
    with program("", masters3.urls, folder=tmp_path, command="pool.py") as started:
        assert started.end() == 0
    assert (tmp_path / "total").read_text() == "100"
    assert_nothing_is_left(masters3)


def test_every_program_of_the_page_is_run_by_a_test() -> None:
    programs = blocks()
    assert len(programs) == 4
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for name, code in programs.items():
        compile(code, name, "exec")
        assert f'blocks()["{name}"]' in tests, f"no test runs {name}"


@needs("gevent")
def test_the_greenlets_of_the_page_take_turns(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "crawl.py").write_text(blocks()["crawl.py"])
    with program("", masters3.urls, folder=tmp_path, command="crawl.py") as started:
        assert started.line() == "True"
        assert started.end() == 0
    assert_nothing_is_left(masters3)


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
@pytest.mark.parametrize("kind", ["sync", pytest.param("gevent", marks=needs("gevent"))])
def test_workers_of_a_preloaded_application(kind: str, tmp_path: Path, masters3: Fleet) -> None:
    path = counter(tmp_path)
    (tmp_path / "total").write_text("41")
    (tmp_path / "web.py").write_text(COMMON + blocks()["app.py"] + MORE)
    options = f"-w 2 -k {kind} web:app"
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
    celery = pytest.importorskip("celery", reason="celery is in the group test-all")
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
