"""Masters that are none: each with an error that says what to do, and nothing done."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socketserver
import threading
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

import rlock
import rlock.asyncio

from ..cli.shell import inside
from ..fixtures import FreshMasters
from ..servers import PASSWORD, Fleet, left


@pytest.mark.parametrize(
    ("masters", "told"),
    [
        ([], "at least one"),
        (None, "must be a list"),
        (["http://127.0.0.1:1"], "redis://"),
        (["redis://"], "no host"),
        (["unix://"], "no path"),
        (["redis://127.0.0.1:port"], "no host and port"),
        (["redis://127.0.0.1/main"], "number of a database"),
        (["redis://a", "redis://:pass/word@b"], "URL 2 of 2"),
        (["redis://:pass/word@a"], "write / as %2F"),
        (["redis://a?connection_class=no"], "which no text can be"),
        (["redis+sentinel://a/b?replicas=1&sentinel_password=\udcff"], "no URL can have"),
        ([42], "no master"),
        ([redis.asyncio.Redis()], "no master"),
        (["redis://a:1", "redis://A:1/3"], "twice"),
        (["unix:///run/r.sock", "unix:///run/r.sock?db=2"], "twice"),
    ],
    # An object's text has its address in it, and every process that collects needs the same names.
    ids=lambda value: str(value) if "object" not in str(value) and "<" not in str(value) else "an object",
)
def test_a_list_of_masters_that_is_none_is_refused_before_anything_is_done(
    masters: object, told: str
) -> None:
    with pytest.raises(rlock.OptionsError, match=told):
        rlock.Client(masters)  # type: ignore[arg-type]


SECRET, PART = PASSWORD, PASSWORD[:12]


class _Parrot(socketserver.StreamRequestHandler):
    """Answers each command with an error with the password in it, also cut off, and what a terminal obeys.

    Redis says "unknown command 'AUTH', with args beginning with: 'user' 'hunter2'".
    """

    def handle(self) -> None:
        while line := self.rfile.readline():
            if line.startswith(b"*"):
                told = f"-ERR what, \x1b[2J{SECRET}?{'x' * 400}, with args beginning with: {PART}\r\n"
                self.wfile.write(told.encode())


@pytest.fixture
def parrot() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Parrot) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("role", ["master", "Sentinel"])
def test_no_message_shows_a_password_that_a_server_repeats(
    parrot: str, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor a character that a terminal obeys, nor 200 of a server. In errors, logs, pages, all commands."""
    url = f"redis://user:{SECRET}@{parrot}"
    if role == "Sentinel":
        url = f"redis+sentinel://{parrot}/main?replicas=1&sentinel_password={SECRET}"
    caplog.set_level(logging.DEBUG)
    told = []
    with rlock.Client([url], request_timeout=0.3) as client:
        for call in (
            lambda: client.lock("x").acquire(timeout=0.3),
            lambda: client.status("x"),
            lambda: client.evict("x"),
            client.init,
        ):
            try:
                told.append(repr(call()))
            except rlock.RLockError as error:
                told.append(f"{error} {error!r} {vars(error)} {pickle.dumps(error)!r}")

    async def main() -> None:
        async with rlock.asyncio.Client([url], request_timeout=0.3) as client:
            try:
                await client.lock("x").acquire(timeout=0.3)
            except rlock.RLockError as error:
                told.append(f"{error!r}")

    asyncio.run(main())
    assert all("what, " in each for each in told), told
    told += [record.getMessage() for record in caplog.records]
    for words in (
        "status x",
        "list",
        "doctor",
        "run --timeout 0.3 x -- true",
        "evict x --yes",
        "watch --once",
    ):
        run = inside(*words.split(), masters=[url], RLOCK_REQUEST_TIMEOUT="0.3")
        told.append(f"rlock {words}: {run.out} {run.err}")
    rude = (PART, "\x1b[2J", "x" * 200)
    assert [each for each in told if any(part in each for part in rude)] == []


@pytest.mark.rule("3.9")
def test_one_server_under_two_names_is_an_error(masters3: Fleet) -> None:
    twice = [masters3.urls[0], masters3.urls[0].replace("127.0.0.1", "localhost"), masters3.urls[1]]
    with rlock.Client(twice) as client, pytest.raises(rlock.OptionsError, match="same server"):
        for _ in range(3):
            client.lock("x").acquire(timeout=1.0)
    assert left(masters3.urls[2]) == []


def test_ready_clients_lend_their_settings_and_not_their_retries(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3, password="secret")
    ready = [
        redis.Redis(
            port=int(url.rpartition(":")[2]), password="secret", decode_responses=True, protocol=3, db=1
        )
        for url in fleet.urls
    ]
    with rlock.Client(ready, restart_guard=0) as client:  # the note is in another database
        with client.lock("x"):
            assert all(server.exists("x") for server in ready), "not in their database"
        fleet.pause()
        with pytest.raises(rlock.QuorumUnreachableError):
            client.lock("x").acquire(blocking=False)
        fleet.resume()
    with pytest.raises(TypeError, match="URLs"):
        pickle.dumps(rlock.Client(ready).lock("x"))
    pickled = pickle.dumps(rlock.Client("redis://:secret@127.0.0.1:1").lock("x"))
    assert b"secret" in pickled, "no: then docs/environments.md is wrong"
    for server in ready:
        server.close()
