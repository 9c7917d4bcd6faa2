"""Metrics of several processes: forked children, and the workers of gunicorn that the page shows."""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from rlock import events
from rlock.telemetry import prometheus
from rlock.testing.local.spawn import free_port

from ..docs.pages import lay_out, starter
from ..environments.programs import needs
from ..servers import Fleet
from . import happenings as made
from .children import LIMIT_S, in_child


@pytest.fixture
def registry() -> Iterator[CollectorRegistry]:
    registry = CollectorRegistry()
    handle = prometheus.enable(registry)
    yield registry
    handle.disable()


def held(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("redlock_held", {"lock": "orders"})


def test_a_forked_child_holds_nothing_and_waits_for_nothing(registry: CollectorRegistry) -> None:
    events.emit(made.acquired(owner="parent's"))
    events.emit(events.Queued("orders:42", 1))

    def look() -> None:
        assert held(registry) == 0
        assert registry.get_sample_value("redlock_waiting", {"lock": "orders"}) == 0
        events.emit(made.acquired(owner="child's"))
        assert held(registry) == 1
        events.emit(made.released(owner="parent's"))  # not the child's to count
        assert held(registry) == 1

    assert in_child(look) == 0
    assert held(registry) == 1


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Site:
    """The application of the page under gunicorn, and what it says of itself."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=LIMIT_S) as answer:
            said: str = answer.read().decode()
            return said

    def samples(self) -> Samples:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.get("/metrics"))
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, tuple(sorted(labels.items()))))


@pytest.fixture
def site(tmp_path: Path, masters3: Fleet) -> Iterator[Any]:
    files = tmp_path / "files"
    files.mkdir()
    lay_out("metrics.md", tmp_path)
    port = free_port()
    with starter(tmp_path, masters3.urls, PROMETHEUS_MULTIPROC_DIR=str(files)) as start:
        start(
            *(sys.executable, "-m", "gunicorn", "--no-control-socket", "--preload", "-w", "3"),
            *("-b", f"127.0.0.1:{port}", "-c", "gunicorn.conf.py", "--log-level", "warning", "app:app"),
        )
        site = Site(port)
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                site.get("/up")
                break
            except OSError:
                assert time.monotonic() < deadline, "gunicorn does not answer"
                time.sleep(0.05)
        yield site


@needs("gunicorn")
def test_workers_of_gunicorn_are_counted_together_and_the_dead_hold_nothing(site: Site) -> None:
    asked = 1
    pids: set[str] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(pids) < 3 and time.monotonic() < deadline:
        pids.add(site.get("/x"))
        asked += 1
    assert len(pids) == 3, "the requests all went to one worker"
    acquired = {"lock": "page", "outcome": "acquired"}
    assert site.value("redlock_acquire_duration_seconds_count", **acquired) == asked
    assert site.value("redlock_held_seconds_count", lock="page") == asked
    assert site.value("redlock_held", lock="page") == 0
    up = [value for (name, _), value in site.samples().items() if name == "redlock_master_up"]
    assert up == [1, 1, 1]
    os.kill(int(pids.pop()), signal.SIGKILL)
    site.get("/x")
    assert site.value("redlock_acquire_duration_seconds_count", **acquired) == asked + 1
