"""The Python blocks of docs/fencing.md as modules, with something to do for each."""

from __future__ import annotations

import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from . import pages
from .pages import module as module

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
WORKERS = [*DRIVERS]


def source(name: str, old: str = "", new: str = "") -> str:
    """A recipe and its driver; with ``new`` in the place of ``old``."""
    return pages.block(PAGE.name, name, old, new) + DRIVERS.get(name, "")


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Silent(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None: ...


def start_server(text: str) -> WSGIServer:
    """The server of the page on a free port, in a thread."""
    server = make_server("127.0.0.1", 0, module(text).application, Server, Silent)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
