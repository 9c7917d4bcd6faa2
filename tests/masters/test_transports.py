"""TLS and unix sockets: the same lock over what redis-py connects."""

from __future__ import annotations

from typing import Any

import pytest

import rlock
from rlock.testing.local.embedded import EmbeddedError, Master, Tls

from ..fixtures import FreshMasters
from ..lock import tasks
from ..lock.conftest import in_thread
from ..servers import PASSWORD, servers_found

#: asyncio has connections of its own.
both_kinds = pytest.mark.parametrize("kind", [rlock.Client, tasks.Client], ids=["blocking", "asyncio"])


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


def test_an_option_of_a_url_that_means_nothing_is_refused_and_one_of_a_pool_is_not() -> None:
    with pytest.raises(rlock.OptionsError, match="foo"):
        rlock.Client(["redis://127.0.0.1:1?foo=5"])
    rlock.Client(["redis://127.0.0.1:1?max_connections=5&socket_timeout=3"]).close()
