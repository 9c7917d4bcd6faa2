"""A real Prometheus scrapes processes that contend for locks while their masters fail.

Every query of the dashboard must have had something to show, and the numbers must be those that the
processes counted themselves. Each fault goes on until Prometheus has seen what it does.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock.testing.local.spawn import free_port

from ..conftest import FreshMasters
from ..docs.pages import TOP
from ..servers import Fleet
from .panels import ALERTS, queries
from .workload import REQUEST_TIMEOUT, TTL

pytest.importorskip("prometheus_client")
pytestmark = [
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="no prometheus on this machine: it is a package of Debian's",
    ),
    pytest.mark.timeout(300),
]

#: Alerts whose conditions take longer to come about than a test may; alerts_test.yml has them.
SLOW = {"RlockLongWaits", "RlockQueueGrowing", "RlockClockOffset"}
PATIENCE_S = 40.0
#: What the processes themselves say of the masters; the dashboard tells the same name of the fleet.
UP = 'redlock_master_up{job="shop"}'

CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: shop
    static_configs: [{{targets: [{targets}]}}]
  - job_name: rlock-dashboard
    static_configs: [{{targets: ["127.0.0.1:{page}"]}}]
"""


class Prometheus:
    """Debian's server, in a folder of its own."""

    def __init__(self, folder: Path, targets: list[int], page: int) -> None:
        told = ", ".join(f'"127.0.0.1:{port}"' for port in targets)
        (folder / "prometheus.yml").write_text(CONFIG.format(rules=ALERTS, targets=told, page=page))
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/api/v1/"
        self._log = (folder / "prometheus.log").open("w")
        self.began = time.time()
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def ask(self, what: str, **arguments: Any) -> Any:
        url = f"{self._url}{what}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{arguments}: {error.read().decode()}")

    def value(self, expression: str) -> float:
        """The sum of what an expression has now; 0 for nothing."""
        try:
            return sum(float(row["value"][1]) for row in self.ask("query", query=expression)["result"])
        except OSError:  # it is not up yet
            return 0.0

    def most(self, expression: str) -> float:
        """The greatest value that it has had so far; NaN for none at all."""
        found = self.ask("query_range", query=expression, start=self.began, end=time.time(), step="500ms")[
            "result"
        ]
        values = [float(value) for row in found for _, value in row["values"]]
        return max((value for value in values if math.isfinite(value)), default=math.nan)

    def until(self, expression: str, *, again: Callable[[], object] = lambda: None) -> None:
        """Wait until an expression has a value over 0; ``again`` does every second what should bring it."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.value(expression) > 0:
            assert time.monotonic() < deadline, f"Prometheus has not seen: {expression}"
            assert self.process.poll() is None, "prometheus has ended"
            again()
            time.sleep(0.5)


class Crew:
    """The processes that lock."""

    def __init__(self, urls: list[str], count: int) -> None:
        self.ports = [free_port() for _ in range(count)]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.telemetry.workload", str(port), ",".join(urls)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=TOP,
            )
            for port in self.ports
        ]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def stop(self) -> Counter[str]:
        """Have them come to an end, and add up what they counted. They serve on."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("stop\n")
            process.stdin.flush()
        counts: Counter[str] = Counter()
        for process in self._processes:
            assert process.stdout is not None
            counts.update(json.loads(process.stdout.readline()))
        return counts

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.fixture(scope="module")
def _tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prometheus")


@pytest.fixture
def fleet(fresh_real_masters: FreshMasters) -> Fleet:
    fleet = fresh_real_masters(3)
    for master in fleet:
        master.start()
    with rlock.Client(fleet.urls, TTL, max_ttl=TTL) as client:
        client.init()
    return fleet


@pytest.fixture
def crew(fleet: Fleet) -> Iterator[Crew]:
    crew = Crew(fleet.urls, 2)
    yield crew
    crew.close()


@pytest.fixture
def page(fleet: Fleet) -> Iterator[int]:
    """`rlock dashboard`, which looks at the masters from outside; its port."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "rlock",
        "dashboard",
        "--port",
        str(port),
        "--masters",
        ",".join(fleet.urls),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=TOP) as process:
        yield port
        process.terminate()


@pytest.fixture
def prometheus(crew: Crew, page: int, _tmp: Path) -> Iterator[Prometheus]:
    server = Prometheus(_tmp, crew.ports, page)
    yield server
    server.close()


def test_dashboard_and_alerts_show_what_happens_and_count_right(
    prometheus: Prometheus, crew: Crew, fleet: Fleet
) -> None:
    prometheus.until("count(up == 1) == 3")
    prometheus.until("redlock_hand_offs_total")
    prometheus.until(f"count({UP} == 1) == 6")
    assert prometheus.value(f"count({UP})") == 6
    for seen in ("redlock_locks_held", "redlock_waiters", 'redlock_master_up{job="rlock-dashboard"}'):
        prometheus.until(seen)

    # One master crashes, and comes back empty: it has no vote for a while, and gets the keys of holders.
    fleet[0].kill()
    prometheus.until(f"{UP} == bool 0")
    prometheus.until('redlock_master_up{job="rlock-dashboard"} == bool 0')
    fleet[0].restart(empty=True)
    prometheus.until("redlock_guarded_votes_total")
    prometheus.until("redlock_healed_locks_total")
    prometheus.until(f"count({UP} == 1) == 6")

    # A master is slow, but not too slow.
    def stall() -> None:
        fleet[1].pause()
        time.sleep(REQUEST_TIMEOUT * 0.7)
        fleet[1].resume()

    prometheus.until("redlock_master_slow_total", again=stall)

    # An operator takes a lock from its holder.
    with rlock.Client(fleet.urls, TTL, max_ttl=TTL) as client:
        assert client.evict(f"nightly:{crew.ports[0]}")
    prometheus.until('redlock_losses_total{cause="disowned", lock="nightly"}')

    # A majority hangs: nothing can be acquired, renewed, or surely released.
    def hang() -> None:
        for master in fleet[1:]:
            master.pause()
        time.sleep(1.5)
        for master in fleet[1:]:
            master.resume()

    for sign in (
        'redlock_acquire_duration_seconds_count{outcome="unreachable"}',
        "redlock_renewal_failures_total",
        "redlock_releases_unsure_total",
        'ALERTS{alertname="RlockQuorumLost"}',
    ):
        prometheus.until(sign, again=hang)
    prometheus.until(f"count({UP} == 1) == 6")
    time.sleep(2)  # for curves that need two points

    counts = crew.stop()
    time.sleep(2)  # three scrapes
    assert_counts(prometheus, counts)
    assert_panels(prometheus)
    assert_alerts(prometheus)


def assert_counts(prometheus: Prometheus, counts: Counter[str]) -> None:
    assert min(counts[word] for word in ("acquired", "busy", "unreachable", "lost")) > 0
    for outcome in ("acquired", "busy", "unreachable"):
        metric = f'redlock_acquire_duration_seconds_count{{outcome="{outcome}"}}'
        assert prometheus.value(metric) == counts[outcome], outcome
    assert prometheus.value("redlock_losses_total") == counts["lost"]
    assert prometheus.value("redlock_held_seconds_count") == counts["acquired"]
    assert prometheus.value("redlock_held") == prometheus.value("redlock_waiting") == 0
    waits = prometheus.value("redlock_wait_seconds_count")
    assert waits == prometheus.value("redlock_queue_length_count")
    assert 0 < prometheus.value("redlock_hand_offs_total") <= waits <= sum(counts.values())


def assert_panels(prometheus: Prometheus) -> None:
    silent = {
        title
        for title, expression in queries(interval="3s", range_="5m")
        if not prometheus.most(expression) > 0
    }
    assert silent == set()


def assert_alerts(prometheus: Prometheus) -> None:
    (group,) = prometheus.ask("rules")["groups"]
    assert {rule["name"]: rule.get("lastError") for rule in group["rules"] if rule["health"] != "ok"} == {}
    told = {
        row["metric"]["alertname"]
        for row in prometheus.ask("query", query="max_over_time(ALERTS[5m])")["result"]
    }
    assert told == {rule["name"] for rule in group["rules"]} - SLOW
    assert prometheus.most('ALERTS{alertname="RlockLockLost", alertstate="firing"}') == 1
