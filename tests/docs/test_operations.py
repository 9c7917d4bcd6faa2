"""docs/operations.md: its settings on real servers; restarts; what becomes of locks when masters change."""

from __future__ import annotations

import re
import threading
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

import rlock
from rlock.rules.timing import guard_time
from rlock.testing.local.embedded import EmbeddedError, Master, Tls
from rlock.testing.local.spawn import free_port

from ..conftest import FreshMasters
from ..lock.conftest import eventually
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import raw, servers_found
from .pages import DOCS, marked

SETTINGS, TLS, URL = marked(DOCS / "operations.md", "tests/docs/test_operations.py")


def arguments(text: str, **paths: str) -> list[str]:
    """Lines of a configuration file as arguments of the server."""
    made = []
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        made += [f"--{name}", paths.get(name, value.strip('"'))]
    return made


def test_the_settings_make_masters_that_forget_nothing_and_are_not_waited_for(
    fresh_masters: FreshMasters,
) -> None:
    fleet = fresh_masters(3, args=arguments(SETTINGS))
    assert raw(fleet.urls[0]).config_get("appendfsync") == {"appendfsync": "always"}
    assert raw(fleet.urls[0]).config_get("save") == {"save": ""}
    with rlock.Client(fleet.urls) as client:
        client.init()
        with client.lock("x"):
            for master in fleet:
                master.restart(empty=False)
            with rlock.Client(fleet.urls) as other:
                assert other.lock("x").acquire(timeout=0.5) is False
                assert other.lock("y").acquire(timeout=2), "it waits for the restart guard"


def test_the_settings_for_tls_and_the_url_go_together(certificate: Tls, tmp_path: Path) -> None:
    for path in re.findall(r"=(/\S+?)(?=&|$)", URL.strip()):
        assert path.startswith("/etc/rlock/")
    paths = {f"tls-{part}-file": str(getattr(certificate, part)) for part in ("cert", "key")}
    paths["tls-ca-cert-file"] = str(certificate.ca)
    for binary in servers_found():
        port = free_port()
        settings = arguments(TLS, **paths, **{"tls-port": str(port)})
        master = Master(binary, port=port, tls=certificate, args=settings)
        try:
            master._launch()  # not `start`: the server wants a certificate of whoever asks whether it is up
            url = URL.strip().replace("10.0.0.1:6379", f"127.0.0.1:{port}")
            for name, path in (
                ("ca.crt", certificate.ca),
                ("me.crt", certificate.cert),
                ("me.key", certificate.key),
            ):
                url = url.replace(f"/etc/rlock/{name}", str(path))
            if not eventually(partial(_answers_or_has_ended, url, master), within=10):
                pytest.fail("it does not answer")
            if not master.running:
                continue  # built without TLS
            with rlock.Client([url], restart_guard=0) as client, client.lock("x") as lock:
                assert lock.is_owned()
            bare = url.partition("&")[0]
            with rlock.Client([bare], restart_guard=0) as client, pytest.raises(rlock.QuorumUnreachableError):
                client.lock("x").acquire(timeout=1)  # it has no certificate of its own
            return
        except EmbeddedError:
            continue
        finally:
            master.close()
    pytest.skip("no server that was found speaks TLS")


def _answers_or_has_ended(url: str, master: Master) -> bool:
    try:
        return bool(raw(url).ping())
    except redis.RedisError:
        return not master.running


def test_in_a_rolling_restart_with_pauses_newcomers_get_the_lock_at_any_time(
    fresh_masters: FreshMasters,
) -> None:
    fleet, ttl = fresh_masters(3), 1.0
    options: dict[str, Any] = {"ttl": ttl, "max_ttl": ttl}
    with rlock.Client(fleet.urls, **options) as holder, rlock.Client(fleet.urls, **options) as newcomer:
        holder.init()
        kept = holder.lock("kept")
        kept.acquire()
        got, ended, failed = 0, threading.Event(), []

        def come_and_go() -> None:
            nonlocal got
            while not ended.is_set():
                try:
                    with newcomer.lock("other") as lock:
                        lock.check()
                    assert newcomer.lock("third").acquire(timeout=1)
                    newcomer.lock("third").release()
                    got += 1
                except Exception as error:
                    failed.append(error)
                time.sleep(0.02)

        thread = threading.Thread(target=come_and_go)
        thread.start()
        for master in fleet:
            master.restart(empty=True)
            time.sleep(guard_time(ttl) + 2.0)
        ended.set()
        thread.join(30)
        assert not failed
        assert got > 20
        kept.check()
        kept.release()


def two_owners(fresh_masters: FreshMasters, before: list[int], after: list[int]) -> bool:
    """Whether a client of the list ``after`` gets the lock while one of ``before`` validly holds it.

    The holder cannot reach the second of its masters, the newcomer not the first: each still has a quorum, or
    thinks so.
    """
    fleet = fresh_masters(4)
    urls = fleet.urls
    nowhere = "redis://127.0.0.1:1"
    old = [urls[i] if i != 1 else nowhere for i in before]
    new = [urls[i] if i != 0 else nowhere for i in after]
    with rlock.Client(old, restart_guard=0) as holder, rlock.Client(new, restart_guard=0) as newcomer:
        lock = holder.lock("x")
        assert lock.acquire(timeout=5)
        try:
            got = newcomer.lock("x").acquire(timeout=1.5)
        except rlock.QuorumUnreachableError:
            got = False
        lock.check()
        return got


def test_a_master_that_is_swapped_for_another_url_gives_one_lock_to_two_owners(
    fresh_masters: FreshMasters,
) -> None:
    assert two_owners(fresh_masters, [0, 1, 2], [0, 1, 3])


@pytest.mark.parametrize(("before", "after"), list(pairwise([[0, 1, 2], [0, 1, 2, 3], [0, 1, 3]])))
def test_one_master_at_a_time_does_not(
    fresh_masters: FreshMasters, before: list[int], after: list[int]
) -> None:
    assert not two_owners(fresh_masters, before, after)
