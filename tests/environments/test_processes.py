"""docs/environments.md: rlock in processes of multiprocessing, preloading gunicorn, Celery; in greenlets.

Under gevent, monkey-patched, it works; under eventlet it refuses to.
"""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlock
from rlock._sync.runtime import EVENTLET

from ..docs.pages import PYTHON, block, lay_out, starter, told
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet
from .programs import COMMON, assert_nothing_is_left, gunicorn, needs, outcome, program

PAGE = "environments.md"

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
    with starter(tmp_path, masters3.urls, RLOCK_TTL="3") as start:
        found = json.loads(told(start(PYTHON, "end.py", method, stderr=None)))
    assert found["got"] is True
    assert found["after"] < 2.0
    assert_nothing_is_left(masters3)


@pytest.mark.parametrize("name", ["pool.py", pytest.param("crawl.py", marks=needs("gevent"))])
def test_a_program_of_the_page_takes_turns(name: str, masters3: Fleet, tmp_path: Path) -> None:
    lay_out(PAGE, tmp_path)
    total = tmp_path / "total"
    total.write_text("0")
    with starter(tmp_path, masters3.urls) as start:
        shown = told(start(PYTHON, name))
    assert (shown, total.read_text()) == (("", "100") if name == "pool.py" else ("True\n", "0"))
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
    if what == "look":
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
    (tmp_path / "total").write_text("41")
    (tmp_path / "web.py").write_text(COMMON + block(PAGE, "app.py") + MORE)
    options = f"-w 2 -k {kind} web:app"
    with (
        starter(tmp_path, masters3.urls, RLOCK_TTL="3") as start,
        rlock.Client(masters3.urls, 3.0) as client,
        ThreadPoolExecutor(1) as browsers,
    ):
        arbiter, get = gunicorn(start, options, "pid")
        assert get("total") == b"42"

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
        assert arbiter.wait(60) is not None
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
def test_a_celery_worker_frees_what_it_holds(pool: str, tmp_path: Path, fresh_masters: FreshMasters) -> None:
    celery = pytest.importorskip("celery", reason="celery is in the group test-all")
    fleet = fresh_masters(4)
    masters, broker = fleet(3), fleet[3].url
    total, kept = tmp_path / "total", tmp_path / "kept"
    total.write_text("5")
    (tmp_path / "work.py").write_text(block(PAGE, "tasks.py") + TASKS)
    command = f"-m celery -A work worker --loglevel=ERROR -n test@localhost -c 3 -P {pool}"
    given = {"BROKER": broker, "RLOCK_RESTART_GUARD": "0", "RLOCK_TTL": "10"}
    app = celery.Celery("sender", broker=broker)
    with app, starter(tmp_path, masters.urls, **given) as start:
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


PRELUDE = """
from gevent import monkey; monkey.patch_all()
import gevent as green
"""

#: One greenlet waits for an ordinary process, while another one ticks.
WAIT = """
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic())
        green.sleep(0.01)
lock = rlock.Client(URLS, 3.0).lock("x")
def wait():
    with lock:
        got_at = time.monotonic()
        green.sleep(4.5)  # longer than the ttl: it is renewed
        lock.check()
        return got_at
sys.stdin.readline()
ticker = green.spawn(tick)
waiter = green.spawn(wait)
green.sleep(1.5)  # after a poll of the waiter, which comes every 1.2 s
waited = list(ticks)
tell(half=True)
got_at = waiter.get()
pauses = [later - sooner for sooner, later in zip(waited, waited[1:])]
tell(got_at=got_at, ticks=len(waited), longest=max(pauses))
"""

KILL = """
import random
client, other = rlock.Client(URLS, 3.0), rlock.Client(URLS, 3.0)
lock = client.lock("x")
def use():
    with lock:
        green.sleep(0.001)
with other.lock("x"):
    waiter = green.spawn(lock.acquire)
    green.sleep(0.3)
    before = client.status(lock.name).queue_length
    waiter.kill()
    green.sleep(0.1)
    killed = client.status(lock.name).queue_length
    try:
        with green.Timeout(0.3):
            lock.acquire()
    except green.Timeout:
        pass
    green.sleep(0.1)
    tell(before=before, killed=killed, timed_out=client.status(lock.name).queue_length)
chance = random.Random(1)
for _ in range(60):
    users = [green.spawn(use) for _ in range(2)]
    green.sleep(chance.random() * 0.004)
    for user in users:
        user.kill()
began = time.monotonic()
tell(got=other.lock("x").acquire(timeout=10.0), after=time.monotonic() - began)
"""

GREEN_END = """
client = rlock.Client(URLS, 10.0)
rest = green.spawn(lambda: (client.lock("y").acquire(), green.sleep(60)))
client.lock("x").acquire()
def wait():
    quiet(rlock.Client(URLS, 10.0).lock("x").acquire)
waiter = green.spawn(wait)
green.sleep(0.5)
"""

THREAD = """
def in_a_native_thread(*call):
    return green.get_hub().threadpool.apply(call[0], call[1:])
client = rlock.Client(URLS, 3.0)
with client.lock("x"):
    pass
def shared():
    with client.lock("x"):
        pass
def own():
    with rlock.Client(URLS, 3.0) as mine, mine.lock("x") as lock:
        return lock.is_owned()
tell(shared=in_a_native_thread(quiet, shared), own=in_a_native_thread(quiet, own))
"""

EARLY = """
client = rlock.Client(URLS, 3.0)
kept = rlock.Client(URLS, 3.0)
with client.lock("x"):
    pass
"""

LATE = """
def use(client):
    with client.lock("x") as lock:
        return lock.is_owned()
def told(client):
    try:
        return use(client)
    except rlock.OptionsError as error:
        return str(error)
tell(used=told(client))
tell(unused=told(kept))
os._exit(0)  # the library itself is broken by patching while threads run
"""

HALF = """
try:
    rlock.Client(URLS, 3.0).lock("x").acquire()
except rlock.OptionsError as error:
    tell(error=str(error))
"""


@needs("gevent")
def test_other_greenlets_run_while_one_waits_or_holds_and_the_release_wakes_it(masters3: Fleet) -> None:
    with (
        rlock.Client(masters3.urls, 3.0) as ordinary,
        program(WAIT, masters3.urls, before=PRELUDE) as waiting,
    ):
        lock = ordinary.lock("x")
        lock.acquire()
        waiting.say()
        assert waiting.facts() == {"half": True}
        lock.release()
        released = time.monotonic()
        time.sleep(0.2)
        assert lock.acquire(timeout=3.2) is False, "the lease was not renewed while its holder slept"
        told = waiting.facts()
        assert waiting.end() == 0
    # A waiter that heard nothing would poll again 0.9 s later.
    assert told["got_at"] - released < 0.6
    assert told["ticks"] > 30
    assert told["longest"] < 0.5
    assert_nothing_is_left(masters3)


@needs("gevent")
def test_a_waiter_that_is_killed_or_runs_out_of_time_leaves_nothing(masters3: Fleet) -> None:
    told = outcome(KILL, masters3.urls, before=PRELUDE)
    assert (told["before"], told["killed"], told["timed_out"]) == (1, 0, 0)
    assert told["got"] is True
    assert told["after"] < 2.0  # less than a ttl: nothing was forgotten
    assert_nothing_is_left(masters3)


@needs("gevent")
def test_the_end_of_the_process_frees_what_its_greenlets_hold(masters3: Fleet) -> None:
    outcome(GREEN_END, masters3.urls, before=PRELUDE)
    with rlock.Client(masters3.urls, 3.0) as other:
        # The ttl is 10 s.
        assert other.lock("x").acquire(timeout=3.0)
        assert other.lock("y").acquire(timeout=3.0)


@needs("gevent")
def test_a_native_thread_needs_a_client_of_its_own(masters3: Fleet) -> None:
    told = outcome(THREAD, masters3.urls, before=PRELUDE)
    assert told == {"shared": "OptionsError", "own": True}


@needs("gevent")
def test_a_client_that_was_used_before_the_patch_says_so(masters3: Fleet) -> None:
    told = outcome(EARLY + PRELUDE + LATE, masters3.urls)
    assert "patch in the first lines of the program" in told["used"]
    assert told["unused"] is True


@needs("gevent")
@pytest.mark.parametrize(("left_out", "named"), [("thread=False", "thread"), ("select=False", "select")])
def test_a_process_that_is_patched_in_part_is_refused(left_out: str, named: str, masters1: Fleet) -> None:
    prelude = PRELUDE.replace("patch_all()", f"patch_all({left_out})")
    told = outcome(HALF, masters1.urls, before=prelude)
    assert told["error"].startswith("gevent has patched ")
    assert f"but not {named}" in told["error"]


@needs("eventlet")
def test_a_process_that_eventlet_has_patched_is_refused(masters1: Fleet) -> None:
    patch = "import eventlet; eventlet.monkey_patch()\n"
    assert outcome(HALF, masters1.urls, before=patch) == {"error": EVENTLET}
    told = outcome(EARLY + patch + LATE, masters1.urls)
    assert told == {"used": EVENTLET, "unused": EVENTLET}
