"""What is read from masters and from the kernel."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import redis

from bench.harness.watch import Counters, cpu_ns, family, requests_in, size
from tests.servers import Fleet

pytestmark = pytest.mark.real_masters


def test_looking_counts_nothing(masters3: Fleet) -> None:
    with Counters(masters3.urls) as counters:
        counters.start()
        assert counters.stop() == (0, 0, 0)
        assert counters.stop() != (0, 0, 0)  # it does count: the look before


def test_commands_requests_and_scripts_are_counted_on_all_masters(masters3: Fleet) -> None:
    clients = [redis.Redis.from_url(url) for url in masters3.urls]
    for client in clients:
        client.ping()
    with Counters(masters3.urls) as counters:
        counters.start()
        for client in clients:
            client.set("x", 1)
            client.eval("redis.call('GET', 'x') return redis.call('GET', 'x')", 0)
        counts = counters.stop()
    assert counts == (3 * (1 + 3), 3 * 2, 3)


def test_keys_that_never_go_are_told_apart(masters3: Fleet) -> None:
    with Counters(masters3.urls) as counters:
        keys, for_ever = counters.keys()
        for url in masters3.urls:
            with redis.Redis.from_url(url) as client:
                client.set("stays", 1)
                client.set("goes", 1, px=60_000)
        assert counters.keys() == (keys + 6, for_ever + 3)


def test_pipelined_commands_are_counted_one_by_one_and_those_of_scripts_not(
    masters3: Fleet,
) -> None:
    first, *others = masters3.urls
    client = redis.Redis.from_url(first)
    client.ping()  # its handshake is not to be counted

    def work() -> None:
        time.sleep(0.15)
        pipeline = client.pipeline(transaction=False)
        for _ in range(5):
            pipeline.get('x [0 lua] "')
        pipeline.eval("return redis.call('GET', 'x')", 0)
        pipeline.execute()
        time.sleep(0.1)
        client.get("x")

    worker = threading.Thread(target=work)
    worker.start()
    counted = requests_in({"quiet": others, "busy": [first]}, 0.8)
    worker.join()
    client.close()
    assert counted == {"quiet": 0, "busy": 7}


def sleeper(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)


@pytest.fixture
def launched() -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process that leads a session, and its child: (leader, family)."""
    child = "import time; print(1, flush=True); t = time.process_time()\n"
    child += "while time.process_time() < t + .2: sum(range(100_000))\n"
    child += "print(2, flush=True); time.sleep(60)"
    process = sleeper(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
    assert process.stdout is not None
    try:
        process.stdout.readline()
        found = family(process.pid)
        yield process, found
    finally:
        for pid in found:
            subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
        process.wait()
        process.stdout.close()


def test_the_cpu_time_and_the_threads_of_a_launcher_are_those_of_its_child_as_well(
    launched: tuple[subprocess.Popen[bytes], list[int]],
) -> None:
    process, found = launched
    assert process.pid in found
    assert len(found) == 2
    before = cpu_ns(found)
    assert process.stdout is not None
    process.stdout.readline()
    spent = cpu_ns(found) - before
    assert 100_000_000 <= spent <= 300_000_000  # 200 ms, and a tick or two
    told = size(found)
    assert told["threads"] == 2
    assert told["rss_bytes"] > 5_000_000
