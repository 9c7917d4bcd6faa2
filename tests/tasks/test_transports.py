"""TLS, unix sockets and passwords: the same lock for tasks over what redis-py connects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import rlock
from rlock.asyncio import Client
from rlock.testing.local.embedded import Master, Tls

from ..masters.test_transports import tls_master
from ..servers import Fleet
from .conftest import Run

__all__ = ["tls_master"]

FreshMasters = Callable[..., Fleet]


async def works(urls: list[str], **options: Any) -> None:
    async with Client(urls, 0.9, **options) as client, Client(urls, 0.9, **options) as other:
        lock = client.lock("x")
        async with lock, lock:
            assert await asyncio.ensure_future(client.lock("x").acquire(timeout=0.2)) is False
            assert await other.lock("x").acquire(timeout=1.0) is False
            lock.check()
        many = [client.lock(f"lock-{i}") for i in range(300)]
        for one in many:
            await one.acquire()
        # Renewed over the same connection, in commands longer than one TLS record.
        assert await other.lock("lock-0").acquire(timeout=1.0) is False
        async with other.lock("x"):
            waiting = asyncio.ensure_future(lock.acquire(timeout=5.0))
            await asyncio.sleep(0.05)
        assert await waiting is True
        for one in many:
            one.check()
            await one.release()


def test_over_unix_sockets(run: Run, fresh_masters: FreshMasters) -> None:
    urls = fresh_masters(3, unixsocket=True).urls
    assert all(url.startswith("unix://") for url in urls)
    run(works(urls))


def test_over_tls_with_a_certificate_that_is_checked(
    run: Run,
    tls_master: Master,
    certificate: Tls,
) -> None:
    async def main() -> None:
        plain = f"rediss://127.0.0.1:{tls_master.port}"
        # Without the guard, which would have this fresh master wait for 11 seconds.
        await works([f"{plain}?ssl_ca_certs={certificate.ca}"], restart_guard=0)
        # Not trusted: no vote, and the reason is told.
        async with Client([plain]) as client:
            with pytest.raises(rlock.QuorumUnreachableError) as caught:
                await client.lock("x").acquire(timeout=0.5)
            assert "certificate" in str(caught.value).lower()
        async with Client([f"redis://127.0.0.1:{tls_master.port}"]) as bare:
            with pytest.raises(rlock.QuorumUnreachableError):
                await bare.lock("x").acquire(timeout=0.5)

    with tls_master:
        run(main())
