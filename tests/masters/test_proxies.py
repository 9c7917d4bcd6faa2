"""Masters behind a proxy. HAProxy passes on bytes, and works; twemproxy has no pub/sub, and is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

import rlock
from rlock.testing.local.spawn import free_port

from ..cli.shell import inside
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import PASSWORD, raw
from .test_transports import both_kinds, works

pytestmark = pytest.mark.slow

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
    with ExitStack() as stack:

        def start(program: str, text: str, *options: str, servers: Sequence[str]) -> str:
            if shutil.which(program) is None:
                pytest.skip(f"no {program} on this machine")
            port = free_port()
            file = tmp_path / f"{port}.conf"
            places = [url.rpartition("@")[2] for url in servers]
            file.write_text(text.format(port=port, servers=places, password=PASSWORD))
            process = stack.enter_context(
                subprocess.Popen([program, *options, file], stderr=subprocess.DEVNULL, cwd=tmp_path)
            )
            stack.callback(process.kill)
            return f"redis://:{PASSWORD}@127.0.0.1:{port}"

        yield start


def answers(url: str) -> bool:
    try:
        return bool(raw(url).ping())
    except (OSError, redis.RedisError):
        return False


@both_kinds
def test_masters_behind_haproxy_work_as_without_it(
    kind: Any, fresh_masters: FreshMasters, behind: Start
) -> None:
    servers = fresh_masters(3).urls
    urls = [behind("haproxy", HAPROXY, "-db", "-f", servers=[url, url]) for url in servers]
    assert eventually(lambda: all(answers(url) for url in urls))
    works(kind, urls)


def test_another_server_behind_the_same_address_has_no_vote_while_the_lease_runs(
    fresh_masters: FreshMasters, behind: Start
) -> None:
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


def test_twemproxy_is_refused_with_a_sentence_that_names_proxies(
    fresh_masters: FreshMasters, behind: Start
) -> None:
    url = behind("nutcracker", TWEMPROXY, "-s", str(free_port()), "-c", servers=fresh_masters(1).urls)
    with rlock.Client([url]) as client, pytest.raises(rlock.QuorumUnreachableError, match="a proxy"):
        eventually(lambda: client.lock("x").acquire(timeout=0.5))
    told = inside("doctor", masters=[url])
    assert "a proxy without pub/sub" in told.out
