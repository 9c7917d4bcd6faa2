"""docs/howto/django.md: its project, with a database, the test client and manage.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlock

from ..servers import Fleet
from .pages import PYTHON, Start, lay_out, starter

pytest.importorskip("django", reason="django is in the extra test")

PAGE = "howto/django.md"
Run = Callable[..., str]

#: Before each program: the project of the page, an item, and another process's client.
PRELUDE = """
import os, threading
import django
django.setup()
from django.core.management import call_command
from django.db import connection, transaction
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
def start(masters3: Fleet, tmp_path: Path) -> Iterator[Start]:
    lay_out(PAGE, tmp_path)
    with starter(tmp_path, masters3.urls, DJANGO_SETTINGS_MODULE="settings") as start:
        yield start


@pytest.fixture
def run(start: Start) -> Run:
    """``run(program)``: the output of a program, in a process of its own: Django can be set up once only."""

    def program(text: str) -> str:
        process = start(PYTHON, "-c", PRELUDE + text)
        told: str = process.communicate(timeout=60)[0]
        assert process.returncode == 0, told
        return told

    return program


def test_a_command_that_is_on_elsewhere_ends_with_75(start: Start, masters3: Fleet) -> None:
    command = (PYTHON, "-m", "django", "nightly")
    with rlock.Client(masters3.urls) as client, client.lock("nightly"):
        busy = start(*command)
        told, _ = busy.communicate(timeout=60)
        assert busy.returncode == 75
        assert "another run is active" in told
        assert "orders" not in told
    free = start(*command)
    told, _ = free.communicate(timeout=60)
    assert (free.returncode, told.split()) == (0, ["orders", "invoices"])


def test_a_view_that_is_on_answers_a_second_request_with_409(run: Run) -> None:
    told = run("""
with other.lock("cart:5"):
    answer = web.post("/cart/5/order/1")
    print(answer.status_code, answer["Retry-After"], left())
    print(web.post("/cart/6/order/1").status_code, left())
answer = web.post("/cart/5/order/1")
print(answer.status_code, answer.json(), left())
""")
    assert told.splitlines() == ["409 1 10", "200 9", "200 {'left': 8} 8"]


#: A later holder writes between the acquire of this one and its first statement.
OVERTAKEN = """
claimed = models.Item.objects.filter
def later():
    assert other.evict("stock:1")
    with other.lock("stock:1") as lock:
        claimed(pk=1).update(left=100, fence=lock.fencing_token)
    connection.close()
def overtaken(*args, **kwargs):
    models.Item.objects.filter = claimed
    thread = threading.Thread(target=later)  # with a database connection of its own
    thread.start()
    thread.join(30)
    return models.Item.objects.filter(*args, **kwargs)
models.Item.objects.filter = overtaken
try:
    print(stock.take(1, 1))
except (stock.Refused, rlock.LeaseLostError) as error:
    print(type(error).__name__)
print(left())
"""


def test_the_row_refuses_a_holder_that_was_overtaken(run: Run) -> None:
    assert [line for line in run(OVERTAKEN).splitlines() if "lock" not in line] == ["Refused", "100"]
