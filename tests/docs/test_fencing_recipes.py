"""The recipes of docs/fencing.md, run as they stand there: on real masters, databases, files and a server."""

from __future__ import annotations

import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer

import pytest

import rlock

from ..contract.conftest import Child, in_thread
from ..contract.conftest import child as child  # fixtures
from ..contract.conftest import make_client as make_client
from ..servers import Fleet
from .recipes import LOCKS, WORKERS, module, source, start_server

MakeClient = Callable[..., rlock.Client]

#: What makes a recipe refuse, and the same without it.
UNFENCED = {
    "row": ("row", "AND fence <= ?", "AND 0 <= ?"),
    "job": ("job", "WHERE fences.fence <= excluded.fence", ""),
    "file": ("file", "if token < int(", "if False and int("),
    "client": ("server", "WHERE store.fence <= excluded.fence", ""),
}


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """``serve(source)``: the server of the page on a free port; its address is in STORE_URL, too."""
    monkeypatch.chdir(tmp_path)
    servers: list[WSGIServer] = []

    def start(text: str) -> str:
        servers.append(start_server(text))
        url = f"http://127.0.0.1:{servers[-1].server_port}/price"
        monkeypatch.setenv("STORE_URL", url)
        return url

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ready(serve: Callable[[str], str]) -> Callable[..., Any]:
    """``ready(name)``: a recipe in an empty directory, its value 100."""

    def make(name: str, text: str = "", server: str = "") -> Any:
        if name == "client":
            serve(server or source("server"))
        made = module(text or source(name))
        made.prepare()
        made.lock_name = LOCKS.get(name) or os.environ["STORE_URL"]
        return made

    return make


def nothing() -> None: ...


def two_tokens(make_client: MakeClient, masters: Fleet) -> tuple[int, int]:
    """The tokens of a holder and of a later one."""
    client = make_client(masters.urls)
    tokens = []
    for _ in range(2):
        with client.lock("x") as lock:
            tokens.append(lock.fencing_token)
    return tokens[0], tokens[1]


def overtaken(recipe: Any, make_client: MakeClient, masters: Fleet) -> bool:
    """Run a worker that another one overtakes before it writes; what it says."""
    client, other = make_client(masters.urls), make_client(masters.urls)

    def later() -> None:
        assert other.evict(recipe.lock_name)
        assert recipe.work(other, nothing, 1000) is True

    done: bool = recipe.work(client, lambda: in_thread(later), 1)
    return done


@pytest.mark.parametrize("name", WORKERS)
def test_one_who_was_overtaken_is_refused_and_changes_nothing_and_can_begin_again(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe = ready(name)
    assert overtaken(recipe, make_client, masters3) is False
    assert recipe.value() == 1100
    assert recipe.work(make_client(masters3.urls), nothing, 1) is True
    assert recipe.value() == 1101


@pytest.mark.parametrize("name", WORKERS)
def test_without_its_condition_the_same_recipe_lets_him_write(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    """So the test above can fail."""
    at, old, new = UNFENCED[name]
    broken = source(at, old, new)
    recipe = ready(name, server=broken) if at == "server" else ready(name, broken)
    with pytest.raises(rlock.LeaseLostError):  # it learns of it when it is too late
        overtaken(recipe, make_client, masters3)
    assert recipe.value() in (101, 1101)


@pytest.mark.parametrize("name", WORKERS)
def test_nested_writes_of_one_holder_are_accepted(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe, client = ready(name), make_client(masters3.urls)
    inner: list[bool] = []
    assert recipe.work(client, lambda: inner.append(recipe.work(client, nothing, 5)), 1) is True
    assert inner == [True]


@pytest.mark.parametrize("name", ["row", "file", "client"])
def test_after_the_claim_and_the_read_an_earlier_holder_is_refused(
    name: str, masters3: Fleet, make_client: MakeClient, ready: Callable[..., Any]
) -> None:
    recipe = ready(name)
    client, other = make_client(masters3.urls), make_client(masters3.urls)
    has_read, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        has_read.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=recipe.work, args=(other, pause, 1000))

    def overtake() -> None:
        assert other.evict(recipe.lock_name)
        thread.start()
        assert has_read.wait(30)

    assert recipe.work(client, overtake, 1) is False
    go_on.set()
    thread.join(30)
    assert recipe.value() == 1100


STOPPED = """
import sys
client = rlock.Client(sys.argv[1].split(), ttl=1.0, max_ttl=1.0)

def pause():
    print("about to write")
    sys.stdin.readline()

print(work(client, pause, 1))
client.close()
print("closed")
"""


@pytest.mark.parametrize("name", WORKERS)
def test_a_process_that_was_stopped_beyond_its_lease_writes_nothing_when_it_goes_on(
    name: str,
    masters3: Fleet,
    make_client: MakeClient,
    ready: Callable[..., Any],
    child: Callable[..., Child],
) -> None:
    recipe = ready(name)
    stopped = child(source(name) + STOPPED, " ".join(masters3.urls))
    assert stopped.line() == "about to write"
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        assert recipe.work(make_client(masters3.urls, ttl=1.0, max_ttl=1.0), nothing, 1000) is True
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    stopped.say()
    assert stopped.line() == "False"
    assert stopped.line() == "closed"
    assert recipe.value() == 1100


def test_the_server_says_what_is_missing_and_what_is_too_low(
    masters3: Fleet, make_client: MakeClient, serve: Callable[[str], str]
) -> None:
    url = serve(source("server"))
    old, new = two_tokens(make_client, masters3)

    def ask(method: str, token: object = None, body: bytes | None = None) -> int:
        headers = {} if token is None else {"X-Fencing-Token": str(token)}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as answer:
                code: int = answer.status
        except urllib.error.HTTPError as error:
            error.close()
            code = error.code
        return code

    assert ask("GET") == 404
    assert ask("GET", old) == 404
    assert ask("PUT", None, b"1") == 428
    assert ask("PUT", "-1", b"1") == ask("PUT", "1e9", b"1") == ask("PUT", "9" * 40, b"1") == 400
    assert [ask("PUT", token, b"2") for token in (old, new, new, old)] == [200, 200, 200, 412]
    assert ask("GET") == ask("GET", new) == 200
    assert ask("GET", old) == 412
