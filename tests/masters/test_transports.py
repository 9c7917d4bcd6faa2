"""Masters over TLS, unix sockets and proxies; and masters that are none, with an error that says what to do.

HAProxy passes on bytes, and works; twemproxy has no pub/sub, and is refused.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

import rlock
from evidence.neighbours.faults import server
from rlock.testing.local.embedded import EmbeddedError, Master, Tls
from rlock.testing.local.spawn import free_port

from ..cli.shell import inside, processes
from ..fixtures import FreshMasters
from ..lock import tasks
from ..lock.conftest import eventually, in_thread
from ..servers import PASSWORD, AnyMaster, Fleet, answers, left, raw, servers_found


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
        (["redis://127.0.0.1:1?foo=5"], "foo"),
        ([42], "no master"),
        ([redis.asyncio.Redis()], "no master"),
        (["redis://a:1", "redis://A:1/3"], "twice"),
        (["unix:///run/r.sock", "unix:///run/r.sock?db=2"], "twice"),
    ],
    # An object's text has its address in it, and every process that collects needs the same names.
    ids=lambda value: str(value) if "object" not in str(value) and "<" not in str(value) else "an object",
)
def test_a_list_of_masters_that_is_none_is_refused_at_once(masters: object, told: str) -> None:
    with pytest.raises(rlock.OptionsError, match=told):
        rlock.Client(masters)  # type: ignore[arg-type]


#: asyncio has connections of its own.
both_kinds = pytest.mark.parametrize("kind", [rlock.Client, tasks.Client], ids=["blocking", "asyncio"])
SECRET, PART = PASSWORD, PASSWORD[:12]
COMMANDS = ("status x", "list", "doctor", "run --timeout 0.3 x -- true", "evict x --yes", "watch --once")
#: An error with the password in it, also cut off, and what a terminal obeys. Redis says to AUTH:
#: "unknown command 'AUTH', with args beginning with: 'user' 'hunter2'".
ERROR = f"-ERR what, \x1b[2J{SECRET}?{'x' * 400}, with args beginning with: {PART}\r\n".encode()


@pytest.fixture
def parrot() -> Iterator[str]:
    """A server that answers each command with it."""
    with server(lambda _: ERROR) as place:
        yield place


@both_kinds
@pytest.mark.parametrize("role", ["master", "Sentinel"])
def test_no_message_shows_a_password_that_a_server_repeats(
    kind: Any, parrot: str, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor a character that a terminal obeys, nor 200 of a server. In errors, logs, pages, all commands."""
    url = f"redis://user:{SECRET}@{parrot}"
    if role == "Sentinel":
        url = f"redis+sentinel://{parrot}/main?replicas=1&sentinel_password={SECRET}"
    caplog.set_level(logging.DEBUG)
    told = []
    with kind([url], request_timeout=0.3) as client:
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

    assert all("what, " in each for each in told), told
    told += [record.getMessage() for record in caplog.records]
    for words in COMMANDS:
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
            assert all(each.exists("x") for each in ready), "not in their database"
        fleet.pause()
        with pytest.raises(rlock.QuorumUnreachableError):
            client.lock("x").acquire(blocking=False)
        fleet.resume()
    with pytest.raises(TypeError, match="URLs"):
        pickle.dumps(rlock.Client(ready).lock("x"))
    pickled = pickle.dumps(rlock.Client("redis://:secret@127.0.0.1:1").lock("x"))
    assert b"secret" in pickled, "no: then docs/environments.md is wrong"
    for each in ready:
        each.close()


def works(kind: Any, urls: list[str]) -> None:
    options: dict[str, Any] = {"ttl": 0.9, "restart_guard": 0}
    with kind(urls, **options) as client, kind(urls, **options) as other:
        lock = client.lock("x")
        with lock, lock:
            assert in_thread(lambda: client.lock("x").acquire(timeout=0.2)) is False
            assert other.lock("x").acquire(timeout=1.0) is False
            lock.check()
        many = [client.lock(f"lock-{i}") for i in range(300)]
        for one in many:
            one.acquire()
        assert in_thread(lambda: lock.acquire(timeout=5.0)) is True
        # Renewed over the same connection, in commands longer than one TLS record.
        assert other.lock("lock-0").acquire(timeout=1.0) is False
        for one in many:
            one.release()


@both_kinds
def test_over_unix_sockets(kind: Any, fresh_masters: FreshMasters) -> None:
    urls = fresh_masters(3, unixsocket=True).urls
    assert all(url.startswith("unix://") for url in urls)
    works(kind, urls)


@pytest.fixture
def tls_master(certificate: Tls) -> Master:
    for binary in servers_found():
        master = Master(binary, tls=certificate, password=PASSWORD)
        try:
            return master.start()
        except EmbeddedError as error:
            master.close()
            if "without TLS" not in str(error):
                raise
    pytest.skip("no server that was found speaks TLS")


@both_kinds
def test_over_tls_with_a_certificate_that_is_checked(kind: Any, tls_master: Master, certificate: Tls) -> None:
    with tls_master:
        works(kind, [tls_master.url])
        plain = tls_master.url.partition("?")[0]
        # Not trusted: no vote, and the reason is told.
        with kind([plain]) as client, pytest.raises(rlock.QuorumUnreachableError) as caught:
            client.lock("x").acquire(timeout=0.5)
        assert "certificate" in str(caught.value).lower()
        with rlock.Client([tls_master.url], restart_guard=0) as client:
            for _ in range(4):  # as a server does with connections that are idle
                assert client.lock("x").acquire(blocking=False)
                client.lock("x").release()
                raw(tls_master.url).client_kill_filter(_type="normal", skipme=True)
        bare = kind([plain.replace("rediss", "redis")])
        with bare, pytest.raises(rlock.QuorumUnreachableError):
            bare.lock("x").acquire(timeout=0.5)


def test_a_certificate_for_another_host_is_refused_unless_the_url_says_otherwise(
    tls_master: Master, certificate: Tls
) -> None:
    # The certificate is for 127.0.0.1 only.
    url = tls_master.url.replace("127.0.0.1", "localhost")
    with tls_master:
        with rlock.Client([url]) as client, pytest.raises(rlock.QuorumUnreachableError) as caught:
            client.lock("x").acquire(timeout=0.5)
        assert "certificate is not valid for 'localhost'" in str(caught.value)
        for choice in ("ssl_check_hostname=false", "ssl_cert_reqs=none"):
            with rlock.Client([f"{url}&{choice}"], restart_guard=0) as client, client.lock("x") as lock:
                lock.check()


def test_an_option_of_a_pool_is_not_refused() -> None:
    rlock.Client(["redis://127.0.0.1:1?max_connections=5&socket_timeout=3"]).close()


@pytest.mark.parametrize(
    ("kind", "library", "protocol"),
    [
        (rlock.Client, None, 3),
        (rlock.Client, redis.Redis, 2),
        (tasks.Client, None, 2),
        (tasks.Client, redis.asyncio.Redis, 3),
    ],
)
def test_with_each_server_and_protocol(any_server: AnyMaster, kind: Any, library: Any, protocol: int) -> None:
    url = f"{any_server.url}?protocol={protocol}"
    masters: Any = [library.from_url(url)] if library else [url]
    works(kind, masters)
    with raw(any_server.url) as server:
        known = [one["id"] for one in server.client_list()]
        with kind(masters) as client, client.lock("x"):
            new = [one for one in server.client_list() if one["id"] not in known]
        assert {one.get("resp", "2") for one in new} == {"2"}, "rlock speaks RESP2 in any case"
    assert left(any_server.url) == []


HAPROXY = """
defaults
  mode tcp
  timeout connect 1s
  timeout client 60s
  timeout server 60s
listen master
  bind 127.0.0.1:{port}
  option tcp-check
  tcp-check send PING\\r\\n
  tcp-check expect rstring PONG|NOAUTH
  server first {servers[0]} check inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions
  server second {servers[1]} check inter 100ms fall 1 rise 1 backup
"""
TWEMPROXY = """
masters:
  listen: 127.0.0.1:{port}
  redis: true
  redis_auth: {password}
  distribution: ketama
  servers:
   - {servers[0]}:1
"""
Start = Callable[..., str]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Start]:
    """Start a proxy in front of servers; its URL."""
    with processes(os.environ, cwd=tmp_path, stderr=subprocess.DEVNULL) as begin:

        def start(program: str, text: str, *options: str, servers: Sequence[str]) -> str:
            if shutil.which(program) is None:
                pytest.skip(f"no {program} on this machine")
            port = free_port()
            file = tmp_path / f"{port}.conf"
            places = [url.rpartition("@")[2] for url in servers]
            file.write_text(text.format(port=port, servers=places, password=PASSWORD))
            begin(program, *options, str(file))
            return f"redis://:{PASSWORD}@127.0.0.1:{port}"

        yield start


@both_kinds
def test_masters_behind_haproxy_work_as_usual(kind: Any, fresh_masters: FreshMasters, behind: Start) -> None:
    servers = fresh_masters(3).urls
    urls = [behind("haproxy", HAPROXY, "-db", "-f", servers=[url, url]) for url in servers]
    assert eventually(lambda: all(answers(url) for url in urls))
    works(kind, urls)


def test_another_server_at_the_same_address_has_no_vote(fresh_masters: FreshMasters, behind: Start) -> None:
    """HAProxy goes on with its second server, which knows nothing of the lease."""
    servers = fresh_masters(2)
    raw(servers.urls[1]).flushall()  # the note that a new master of the tests may vote at once
    url = behind("haproxy", HAPROXY, "-db", "-f", servers=servers.urls)
    assert eventually(lambda: answers(url))
    with rlock.Client([url], max_ttl=60.0) as holder, rlock.Client([url], max_ttl=60.0) as other:
        assert None in holder.init().values()
        lock = holder.lock("x", ttl=60.0, renew=False)  # a renewal would put it back on the second server
        assert lock.acquire(timeout=5.0)
        servers[0].kill()
        assert eventually(lambda: answers(url))
        with pytest.raises(rlock.QuorumUnreachableError, match="no vote for"):
            other.lock("x").acquire(timeout=2.0)
        lock.check()


def test_twemproxy_is_refused_and_the_error_names_proxies(fresh_masters: FreshMasters, behind: Start) -> None:
    url = behind("nutcracker", TWEMPROXY, "-s", str(free_port()), "-c", servers=fresh_masters(1).urls)
    with rlock.Client([url]) as client, pytest.raises(rlock.QuorumUnreachableError, match="a proxy"):
        eventually(lambda: client.lock("x").acquire(timeout=0.5))
    told = inside("doctor", masters=[url])
    assert "a proxy without pub/sub" in told.out
