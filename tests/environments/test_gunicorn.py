"""rlock in the workers of gunicorn, with preload_app: the client is made, and used, before the fork."""

from __future__ import annotations

import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlock
from rlock.testing.local.spawn import free_port

from ..docs.pages import PYTHON, starter
from ..lock.conftest import eventually
from ..servers import Fleet
from .programs import COMMON, ORDINARY, assert_nothing_is_left, blocks, counter, needs, program

pytestmark = needs("gunicorn")

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


@pytest.mark.parametrize("kind", ["sync", "gthread", pytest.param("gevent", marks=needs("gevent"))])
def test_workers_of_a_preloaded_application(kind: str, tmp_path: Path, masters3: Fleet) -> None:
    path = counter(tmp_path)
    (tmp_path / "total").write_text("41")
    (tmp_path / "web.py").write_text(COMMON + blocks()["app.py"] + MORE)
    port = free_port()
    options = f"--preload -w 2 -k {kind} -b 127.0.0.1:{port} --log-level warning"
    threads = ["--threads", "3"] if kind == "gthread" else []
    command = ["-m", "gunicorn", "--no-control-socket", *options.split(), *threads, "web:app"]

    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            content: bytes = answer.read()
            return content

    def up() -> bool:
        try:
            return bool(get("pid"))
        except OSError:
            return False

    with (
        starter(tmp_path, masters3.urls, RLOCK_TTL="3") as start,
        rlock.Client(masters3.urls, 3.0) as client,
        ThreadPoolExecutor(8) as browsers,
    ):
        arbiter = start(PYTHON, *command)
        assert eventually(up, 20.0), "gunicorn does not answer"
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
