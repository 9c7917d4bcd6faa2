"""The pages of docs/howto whose programs are processes: celery, cron, django, leader, redisson.

A worker of Celery, prefork, with one master's server as the broker; the lines of the crontab and the units;
the project of Django with a database, its test client and manage.py; Java and Python that wait for one lock.
"""

from __future__ import annotations

import configparser
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rlock

from ..fixtures import FreshMasters
from ..interop.test_shared import redisson as redisson  # a fixture
from ..lock.conftest import eventually
from ..servers import Fleet, left, raw
from .pages import DOCS, PYTHON, RLOCK, Start, block, lay_out, marked, starter, told, write_scripts


def test_a_task_runs_once_at_a_time(masters3: Fleet, fresh_masters: FreshMasters, tmp_path: Path) -> None:
    celery = pytest.importorskip("celery", reason="celery is in the group test-all")
    broker = fresh_masters(1)[0].url
    changes = {
        "tasks.py": ("default_retry_delay=30", "default_retry_delay=1"),
        "work.py": ("range(30)", "range(20)"),
    }
    lay_out("howto/celery.md", tmp_path, changes)
    log = tmp_path / "worker.log"
    command = "-m celery -A tasks worker -c 2 -l INFO --without-gossip --without-mingle -E"
    with (
        celery.Celery("sender", broker=broker) as app,
        raw(f"{broker}/1") as backend,
        rlock.Client(masters3.urls) as client,
        starter(tmp_path, masters3.urls, BROKER_URL=broker, RESULT_URL=f"{broker}/1") as start,
        log.open("a") as file,
    ):

        def send(task: str, *args: Any) -> str:
            return str(app.send_task(task, args).id)

        def result(ident: str) -> Any:
            """What the task has returned; read from the broker's server, so that no result waits on it."""

            def done() -> Any:
                meta = json.loads(str(backend.get(f"celery-task-meta-{ident}") or "{}"))
                return meta if meta.get("status") in ("SUCCESS", "FAILURE") else None

            found = eventually(done, 30)
            assert found is not None, log.read_text()
            assert found["status"] == "SUCCESS", found
            return found["result"]

        start(PYTHON, *command.split(), stdout=file)
        first = send("tasks.report", 7)
        assert eventually(lambda: client.status("report:7").locked, 40), log.read_text()
        assert result(send("tasks.report", 7)) is None
        assert "was skipped" in log.read_text()
        assert client.status("report:7").locked, "it was not busy any more"
        rebuilds = [send("tasks.rebuild", "a") for _ in range(2)]
        other = send("tasks.report", 8)
        assert (result(first), result(other)) == ("report 7", "report 8")
        assert [result(one) for one in rebuilds] == ["index a", "index a"]


#: Notes that it runs, and waits until it is told to end.
JOB = "echo $$ >>ran\nuntil test -e go-on; do sleep 0.05; done\nexit 3"


@pytest.fixture
def start(masters3: Fleet, tmp_path: Path) -> Iterator[Start]:
    """Programs of this folder come first."""
    jobs = dict.fromkeys(("nightly.py", "invoices.sh", "import.sh"), JOB)
    path = write_scripts(tmp_path, {"rlock": RLOCK, "venv/bin/python": 'exec sh "$@"', **jobs})
    with starter(tmp_path, masters3.urls, PATH=path) as start:
        yield start


def crontab(folder: Path) -> dict[str, str]:
    """The shell lines, by the name of the lock, with everything in this folder."""
    lines = block("howto/cron.md", "crontab").splitlines()
    settings = [line for line in lines if re.fullmatch(r"[A-Z_]+=\S+", line)]
    assert [line.partition("=")[0] for line in settings] == ["MAILTO", "RLOCK_MASTERS"]
    commands = [line.split(maxsplit=5)[5] for line in lines[len(settings) :]]
    here = [re.sub(r"/opt/rlock/bin|/srv/report|/srv", str(folder), command) for command in commands]
    return {re.findall(r" (\w+) -- ", command)[0]: command for command in here}


def runs(folder: Path) -> int:
    ran = folder / "ran"
    return len(ran.read_text().split()) if ran.exists() else 0


@pytest.mark.parametrize("job", ["nightly", "import"])
def test_a_second_run_is_skipped_or_waits_for_the_one_before(start: Start, tmp_path: Path, job: str) -> None:
    line = crontab(tmp_path)[job]
    first = start("/bin/sh", "-c", line)  # as cron does
    assert eventually(lambda: runs(tmp_path), 20)
    second = start("/bin/sh", "-c", line)
    if job == "nightly":
        assert "'nightly' is held by" in second.communicate(timeout=30)[0]
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(1)
    assert runs(tmp_path) == 1
    (tmp_path / "go-on").touch()
    assert first.wait(30) == 3, "the job's own status"
    assert second.wait(30) == (75 if job == "nightly" else 3)
    assert runs(tmp_path) == (1 if job == "nightly" else 2)


def test_a_script_has_the_lock_from_line_to_line(tmp_path: Path, fresh_masters: FreshMasters) -> None:
    (script,) = marked(DOCS / "howto/hand-over.md", "tests/docs/test_howto_processes.py")
    steps = dict.fromkeys(("dump.sh", "upload.sh"), "echo $0 >> steps; rlock status backup >> steps")
    path = write_scripts(tmp_path, {"rlock": RLOCK, **steps, "backup": script})
    urls = fresh_masters(1).urls
    with (
        rlock.Client(urls, max_ttl=600) as client,
        starter(tmp_path, urls, PATH=path, RLOCK_MAX_TTL="600") as start,
    ):
        client.init()
        assert told(start("./backup")) == ""
        steps_taken = re.findall(r"(?m)^\./(\w+)|(held) by", (tmp_path / "steps").read_text())
        assert steps_taken == [("dump", ""), ("", "held"), ("upload", ""), ("", "held")]
        with client.lock("backup"):
            told(start("./backup"), 75)


def test_the_service_skips_a_run_like_the_crontab(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.read_string(block("howto/cron.md", "nightly.service"))
    assert unit["Service"]["ExecStart"].partition("/rlock ")[2] in crontab(tmp_path)["nightly"]
    assert unit["Service"]["SuccessExitStatus"] == "75"


def test_of_two_schedulers_one_runs_the_job_and_the_other_skips_it(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("apscheduler", reason="apscheduler is in the group test-all")
    lay_out("howto/cron.md", tmp_path, {"jobs.py": ("seconds=60", "seconds=1")})
    log = tmp_path / "log"
    command = (
        "import logging, runpy; logging.basicConfig(level=logging.INFO); "
        "runpy.run_path('jobs.py', run_name='__main__')"
    )
    with log.open("a") as file:
        for _ in range(2):
            start(PYTHON, "-c", command, stdout=file)
        assert eventually(lambda: "was skipped" in log.read_text() and "cleanup" in log.read_text(), 20)


#: Before each program: the project of the page, an item, and another process's client.
DJANGO = """
import os
import django
django.setup()
from django.core.management import call_command
from django.test import Client
import rlock
from shop import locks, models, stock

call_command("migrate", run_syncdb=True, verbosity=0)
item = models.Item.objects.create(pk=1, left=10)
other = rlock.Client(os.environ["RLOCK_MASTERS"].split(","), ttl=3)
web = Client(raise_request_exception=True)

def left():
    return models.Item.objects.get(pk=1).left
"""


@pytest.fixture
def django(masters3: Fleet, tmp_path: Path) -> Iterator[Start]:
    """Start a program in the project of the page."""
    pytest.importorskip("django", reason="django is in the group test-all")
    lay_out("howto/django.md", tmp_path)
    with starter(tmp_path, masters3.urls, DJANGO_SETTINGS_MODULE="settings") as start:
        yield start


def shown(django: Start, text: str) -> str:
    """The output of a program, in a process of its own: Django can be set up once only."""
    return told(django(PYTHON, "-c", DJANGO + text))


def test_a_command_that_is_on_elsewhere_ends_with_75(django: Start, masters3: Fleet) -> None:
    command = (PYTHON, "-m", "django", "nightly")
    with rlock.Client(masters3.urls) as client, client.lock("nightly"):
        busy = told(django(*command), 75)
        assert "another run is active" in busy
        assert "orders" not in busy
    assert told(django(*command)).split() == ["orders", "invoices"]


def test_a_view_that_is_on_answers_a_second_request_with_409(django: Start) -> None:
    lines = shown(
        django,
        """
with other.lock("cart:5"):
    answer = web.post("/cart/5/order/1")
    print(answer.status_code, answer["Retry-After"], left())
    print(web.post("/cart/6/order/1").status_code, left())
answer = web.post("/cart/5/order/1")
print(answer.status_code, answer.json(), left())
""",
    )
    assert lines.splitlines() == ["409 1 10", "200 9", "200 {'left': 8} 8"]


def test_the_row_refuses_a_holder_that_was_overtaken(django: Start) -> None:
    lines = shown(
        django,
        """
models.Item.objects.filter(pk=1).update(left=100, fence=2**53)  # by a later holder
try:
    print(stock.take(1, 1))
except stock.Refused:
    print("refused", left())
""",
    )
    assert lines.split() == ["refused", "100"]


#: The package of a recipe, its command, what the leader says again and again, and faster than on the page.
LEADERS = {
    "celery": (
        ["sh", "beat.sh"], "Sending due task report", {
            "beat_tasks.py": ("60.0", "0.5"),
            "beat.sh": ("/var/tmp/celerybeat-schedule", "$$.schedule -l INFO"),
        },
    ),
    "apscheduler": ([PYTHON, "jobs.py"], "clean up [0-9]+", {"jobs.py": ("seconds=60", "seconds=0.3")}),
    "django": ([PYTHON, "-m", "django", "outbox"], "sent with token [0-9]+", {}),
}  # fmt: skip


@pytest.mark.parametrize("package", LEADERS)
def test_one_machine_works_and_then_the_other_one(package: str, masters3: Fleet, tmp_path: Path) -> None:
    pytest.importorskip(package, reason=f"{package} is in the group test-all")
    command, says, changes = LEADERS[package]
    path = write_scripts(tmp_path, {"rlock": RLOCK, "celery": f'exec "{PYTHON}" -m celery "$@"'})
    logs = [tmp_path / f"log{i}" for i in range(2)]

    def said() -> list[int]:
        """How often each machine has said it."""
        return [len(re.findall(says, log.read_text())) for log in logs]

    environment = {"BROKER_URL": masters3[0].url, "PYTHONUNBUFFERED": "1", "PATH": path}
    if package == "django":
        environment["DJANGO_SETTINGS_MODULE"] = "settings"
        lay_out("howto/django.md", tmp_path)
    lay_out("howto/leader.md", tmp_path, changes)
    with starter(tmp_path, masters3.urls, **environment) as start, ExitStack() as files:
        machines = [start(*command, stdout=files.enter_context(log.open("w"))) for log in logs]
        assert eventually(lambda: any(said()), 40), [log.read_text() for log in logs]
        before = said()
        assert before.count(0) == 1, before
        first = 1 - before.index(0)
        machines[first].send_signal(signal.SIGTERM)
        machines[first].wait(30)
        ended = said()[first]
        assert eventually(lambda: said()[1 - first], 40), logs[1 - first].read_text()
        assert said()[first] == ended


def test_both_programs_of_the_page_take_turns(masters3: Fleet, redisson: list[str], tmp_path: Path) -> None:
    urls = masters3.urls
    lay_out("howto/redisson.md", tmp_path)
    commands = ([*redisson, "Nightly.java", *urls], [PYTHON, "nightly.py", *urls])
    with rlock.Client(urls, 3.0, interop="redisson") as client, starter(tmp_path, urls) as start:
        lock = client.lock("nightly")
        lock.acquire()
        processes = [start(*command, stderr=subprocess.PIPE) for command in commands]
        assert eventually(lambda: client.status("nightly").queue_length == 1, 30)
        time.sleep(1)
        assert processes[0].poll() is None
        lock.release()
        assert [told(process) for process in processes] == ["java has it\n", "python has it\n"]
    assert not [key for key in left(urls[0]) if "latch" not in key]
