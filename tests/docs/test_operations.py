"""docs/operations.md: its settings on real servers, and the quorums when masters change."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import combinations, product

import pytest
import redis

import rlock
from rlock.rules.quorum import quorum
from rlock.testing.local.embedded import Master, ServerBinary, Tls
from rlock.testing.local.spawn import free_port

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import raw
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


def test_the_settings_for_tls_and_the_url_go_together(certificate: Tls, server: ServerBinary) -> None:
    paths = {f"tls-{part}-file": str(getattr(certificate, part)) for part in ("cert", "key")}
    port = free_port()
    settings = arguments(TLS, **paths, **{"tls-ca-cert-file": str(certificate.ca), "tls-port": str(port)})
    url = URL.strip().replace("10.0.0.1:6379", f"127.0.0.1:{port}")
    for name, path in (("ca.crt", "ca"), ("me.crt", "cert"), ("me.key", "key")):
        url = url.replace(f"/etc/rlock/{name}", str(getattr(certificate, path)))
    with closing(Master(server, port=port, tls=certificate, args=settings)) as master:
        master._launch()  # not `start`: the server wants a certificate of whoever asks whether it is up
        if not eventually(partial(answers, url), within=10) and not master.running:
            pytest.skip(f"{server} was built without TLS")
        with rlock.Client([url], restart_guard=0) as client, client.lock("x") as lock:
            assert lock.is_owned()
        bare = url.partition("&")[0]
        with rlock.Client([bare], restart_guard=0) as client, pytest.raises(rlock.QuorumUnreachableError):
            client.lock("x").acquire(timeout=1)  # it has no certificate of its own


def answers(url: str) -> bool:
    try:
        return bool(raw(url).ping())
    except redis.RedisError:
        return False


@pytest.mark.parametrize(
    ("before", "after", "safe"), [("123", "124", False), ("123", "1234", True), ("1234", "124", True)]
)
def test_quorums_of_two_lists_share_a_master_if_one_is_added_or_removed(
    before: str, after: str, safe: bool
) -> None:
    old, new = (combinations(masters, quorum(len(masters))) for masters in (before, after))
    assert all({*one} & {*other} for one, other in product(old, new)) == safe
