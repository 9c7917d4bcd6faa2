"""What is read from masters and from the kernel."""

from __future__ import annotations

import pytest
import redis

from bench.harness.counters import Counters
from tests.servers import Fleet

pytestmark = pytest.mark.real_masters


def test_requests_and_scripts_are_counted_on_all_masters(masters3: Fleet) -> None:
    clients = [redis.Redis.from_url(url) for url in masters3.urls]
    for client in clients:
        client.ping()
    with Counters(masters3.urls) as counters:
        counters.start()
        for client in clients:
            client.set("x", 1)
            client.eval("redis.call('GET', 'x') return redis.call('GET', 'x')", 0)
        counts = counters.stop()
    assert counts == (3 * 2, 3)
