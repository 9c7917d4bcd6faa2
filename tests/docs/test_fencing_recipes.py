"""The recipes of docs/fencing.md, run as they stand there: on real masters, databases, files and a server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

import pytest

import rlock

from ..lock.conftest import MakeClient, in_thread
from ..lock.conftest import make_client as make_client
from ..servers import Fleet
from . import pages
from .pages import module

PAGE = pages.DOCS / "fencing.md"

#: A worker and a look for each recipe: `work(client, pause, add)` adds to the value under the lock, and calls
#: `pause` between the acquire and the write. In source, because another process runs it, too.
DRIVERS = {
    "row": """
import contextlib
import sqlite3

def database():
    return contextlib.closing(sqlite3.connect("data.db"))

def prepare():
    with database() as db:
        db.execute(TABLE)
        write(db, UPSERT, "a", 100, 0)

def work(client, pause, add):
    def compute(price):
        pause()
        return price + add
    with database() as db:
        return reprice(client, db, "a", compute)

def value():
    with database() as db:
        return db.execute("SELECT price FROM items").fetchone()[0]
""",
    "job": """
import contextlib
import sqlite3

class Connection(sqlite3.Connection):
    pause = staticmethod(lambda: None)
    def __enter__(self):
        self.pause()
        return super().__enter__()

def database():
    return contextlib.closing(sqlite3.connect("data.db", factory=Connection))

def prepare():
    with database() as db, db:
        db.execute(TABLE)
        db.execute("CREATE TABLE totals (total INTEGER)")
        db.execute("INSERT INTO totals VALUES (100)")

def work(client, pause, add):
    with database() as db:
        db.pause = pause
        return run(client, db, "a", lambda db: db.execute("UPDATE totals SET total = total + ?", (add,)))

def value():
    with database() as db:
        return db.execute("SELECT total FROM totals").fetchone()[0]
""",
    "file": """
def prepare():
    replace("data", b"100", 0)

def work(client, pause, add):
    def change(data):
        pause()
        return b"%d" % (int(data) + add)
    return rewrite(client, "data", change)

def value():
    with open("data", "rb") as file:
        return int(file.read())
""",
    "client": """
import os

def prepare():
    send(os.environ["STORE_URL"], 0, b"100")

def work(client, pause, add):
    def compute(body):
        pause()
        return b"%d" % (int(body) + add)
    return change(client, os.environ["STORE_URL"], compute)

def value():
    with urllib.request.urlopen(os.environ["STORE_URL"]) as answer:
        return int(answer.read())
""",
}
LOCKS = {"row": "items:a", "job": "a", "file": "file:data"}


def source(name: str, old: str = "", new: str = "") -> str:
    """A recipe and its driver; with ``new`` in the place of ``old``."""
    return pages.block(PAGE.name, name, old, new) + DRIVERS.get(name, "")


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


#: What makes a recipe refuse, and the same without it.
UNFENCED = {
    "row": ("row", "AND fence <= ?", "AND 0 <= ?"),
    "job": ("job", "WHERE fences.fence <= excluded.fence", ""),
    "file": ("file", "if token < int(", "if False and int("),
    "client": ("server", "WHERE store.fence <= excluded.fence", ""),
}


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``ready(name, broken=True)``: a recipe in an empty directory, its value 100; without its condition."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:

        def make(name: str, broken: bool = False) -> Any:
            change = UNFENCED[name] if broken else ("", "", "")
            texts = {
                each: source(each, *(change[1:] if each == change[0] else ())) for each in (name, "server")
            }
            lock_name = LOCKS.get(name)
            if name == "client":
                application = module(texts["server"]).application
                server = stack.enter_context(make_server("127.0.0.1", 0, application, Server))
                threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                stack.callback(server.shutdown)
                lock_name = f"http://127.0.0.1:{server.server_port}/price"
                monkeypatch.setenv("STORE_URL", lock_name)
            made = module(texts[name])
            made.prepare()
            made.lock_name = lock_name
            return made

        yield make


def nothing() -> None: ...


def overtaken(recipe: Any, make_client: MakeClient, masters: Fleet) -> bool:
    """Run a worker that another one overtakes before it writes; what it says."""
    client, other = make_client(masters.urls), make_client(masters.urls)

    def later() -> None:
        assert other.evict(recipe.lock_name)
        assert recipe.work(other, nothing, 1000) is True

    done: bool = recipe.work(client, lambda: in_thread(later), 1)
    return done


@pytest.mark.parametrize("name", DRIVERS)
def test_one_who_was_overtaken_is_refused_and_changes_nothing_and_can_begin_again(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe = ready(name)
    assert overtaken(recipe, make_client, masters3) is False
    assert recipe.value() == 1100
    assert recipe.work(make_client(masters3.urls), nothing, 1) is True
    assert recipe.value() == 1101


@pytest.mark.parametrize("name", DRIVERS)
def test_without_its_condition_the_same_recipe_lets_him_write(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    """So the test above can fail."""
    recipe = ready(name, broken=True)
    with pytest.raises(rlock.LeaseLostError):  # it learns of it when it is too late
        overtaken(recipe, make_client, masters3)
    assert recipe.value() in (101, 1101)


@pytest.mark.parametrize("name", DRIVERS)
def test_nested_writes_of_one_holder_are_accepted(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe, client = ready(name), make_client(masters3.urls)
    inner: list[bool] = []
    assert recipe.work(client, lambda: inner.append(recipe.work(client, nothing, 5)), 1) is True
    assert inner == [True]
