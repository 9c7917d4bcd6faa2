"""Masters that are none: each with an error that says what to do, and nothing done."""

from __future__ import annotations

import itertools
import pickle
import re
from typing import Any

import pytest
import redis
import redis.asyncio

import rlock
import rlock.asyncio
from rlock._client.handshake import connect_error

from ..fixtures import FreshMasters
from ..servers import Fleet, left


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


def test_no_error_and_no_label_shows_a_password() -> None:
    with pytest.raises(rlock.OptionsError) as caught:
        rlock.Client(["redis://user:secret@a:port"])
    assert "secret" not in str(caught.value)
    client = rlock.Client(["redis://user:secret@127.0.0.1:1", "rediss://:secret@127.0.0.1:2/3"])
    assert client.masters == ["redis://127.0.0.1:1", "rediss://127.0.0.1:2/3"]
    assert "secret" not in repr(client)
    assert b"secret" in pickle.dumps(client.lock("x")), "no: then docs/environments.md is wrong"
    with pytest.raises(rlock.QuorumUnreachableError) as unreachable:
        client.lock("x").acquire(blocking=False)
    assert "secret" not in str(unreachable.value)
    client.close()


#: Secrets: no message may show any part of them.
HIDDEN = re.compile("hunter2|swordfish|4711|815")
SECRETS = [
    *(
        f"hunter2{mark}swordfish"
        for mark in ("", *"/?#@,:;&=%[]\\ \t\n'\"<>|\x00\u2100\udcff", "://", "[x]", "]x[")
    ),
    *(f"4711{mark}815" for mark in "/?#@,:;&= "),
    "hunter2?swordfish=4711",
    "4711?swordfish=815,hunter2",
    "4711/0?swordfish=815",
    "hunter2@swordfish/x",
    "hunter2@/swordfish",
]
PLACES = [
    "{scheme}://:{secret}@10.0.0.1:1",
    "{scheme}://user:{secret}@10.0.0.1:1/2?db=3",
    "{scheme}://:{secret}@/run/redis.sock",
    "{scheme}://:hunter2",
    "{scheme}://user:hunter2",
    "{scheme}://10.0.0.1?password={secret}",
    "{scheme}://10.0.0.1?db=x&password={secret}&foo=1",
    "{scheme}:///run/redis.sock?username=user&password={secret}",
    "{scheme}:/:{secret}@10.0.0.1",
]


@pytest.mark.parametrize("kind", [rlock.Client, rlock.asyncio.Client])
@pytest.mark.parametrize("scheme", ["redis", "unix", "http", ""])
def test_no_part_of_a_password_is_shown_however_malformed_its_url_is(scheme: str, kind: type[Any]) -> None:
    refused = 0
    for secret, place in itertools.product(SECRETS, PLACES):
        url = place.format(scheme=scheme, secret=secret)
        # In a list of its own, as in RLOCK_MASTERS, and behind another one.
        for masters in ([url], url, ["redis://10.0.0.2", url]):
            try:
                client = kind(masters)
            except rlock.OptionsError as error:
                told, refused = str(error), refused + 1
            else:
                told = f"{client!r} {client.masters}"
            assert not HIDDEN.search(told), (url, told)
    assert refused > 100


def test_a_password_is_not_shown_by_a_server_that_knows_no_auth(fresh_masters: FreshMasters) -> None:
    # Redis says "unknown command 'AUTH', with args beginning with: 'user' 'hunter2'".
    (url,) = fresh_masters(1, args=("--rename-command", "AUTH", "")).urls
    with (
        rlock.Client([url.replace("//", "//user:hunter2@")]) as client,
        pytest.raises(rlock.RLockError) as caught,
    ):
        client.lock("x").acquire(timeout=0.5)
    assert "unknown command" in str(caught.value)
    assert not HIDDEN.search(str(caught.value))


@pytest.mark.parametrize("closed", [ConnectionResetError(104, "reset"), BrokenPipeError(32, "broken pipe")])
def test_a_server_that_ends_the_connection_at_once_has_one_text_with_what_to_do(closed: OSError) -> None:
    """As protected mode does: two texts by turns would be a new line of the log at each try."""
    error = redis.ConnectionError("Error 32 while writing to socket")
    error.__context__ = closed
    told = str(connect_error(error))
    assert "protected mode" in told
    assert "rlock doctor" in told


@pytest.mark.rule("3.9")
def test_one_server_under_two_names_is_an_error(masters3: Fleet) -> None:
    port = masters3.urls[0].rpartition(":")[2]
    twice = [masters3.urls[0], f"redis://localhost:{port}", masters3.urls[1]]
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
        __import__("pickle").dumps(rlock.Client(ready).lock("x"))
    for server in ready:
        server.close()
