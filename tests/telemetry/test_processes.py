"""Metrics of several processes: forked children, and the workers of gunicorn that the page shows."""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from rlock import events
from rlock.telemetry import prometheus
from rlock.testing.local.spawn import free_port

from ..docs.pages import lay_out, starter
from ..environments.programs import needs
from ..lock.conftest import eventually
from ..lock.test_lifecycle import forked
from ..servers import Fleet
from . import happenings as made

LIMIT_S = 20.0


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

    assert forked(look) == "None"
    assert held(registry) == 1


@pytest.fixture
def site(tmp_path: Path, masters3: Fleet) -> Iterator[Callable[[str], str]]:
    """What the application of the page answers under gunicorn."""
    (tmp_path / "files").mkdir()
    lay_out("metrics.md", tmp_path)
    port = free_port()

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
            said: str = answer.read().decode()
            return said

    def up() -> bool:
        try:
            return bool(get("/up"))
        except OSError:
            return False

    with starter(tmp_path, masters3.urls, PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "files")) as start:
        start(
            *(sys.executable, "-m", "gunicorn", "--no-control-socket", "--preload", "-w", "3"),
            *("-b", f"127.0.0.1:{port}", "-c", "gunicorn.conf.py", "--log-level", "warning", "app:app"),
        )
        assert eventually(up, LIMIT_S), "gunicorn does not answer"
        yield get


@needs("gunicorn")
def test_workers_of_gunicorn_are_counted_together_and_the_dead_hold_nothing(
    site: Callable[[str], str],
) -> None:
    def samples() -> dict[str, float]:
        """The last of each name."""
        families = text_string_to_metric_families(site("/metrics"))
        return {sample.name: sample.value for family in families for sample in family.samples}

    asked, pids = 1, set[str]()
    while len(pids) < 3:
        pids.add(site("/x"))
        asked += 1
        assert asked < 1000, "the requests all went to one worker"
    told = samples()
    assert told["redlock_acquire_duration_seconds_count"] == told["redlock_held_seconds_count"] == asked
    assert (told["redlock_held"], told["redlock_master_up"]) == (0, 1)
    os.kill(int(pids.pop()), signal.SIGKILL)
    site("/x")
    assert samples()["redlock_acquire_duration_seconds_count"] == asked + 1
