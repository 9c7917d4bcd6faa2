"""Metrics for Prometheus: of one process, of forked children, and of the page's workers of gunicorn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="prometheus-client is in the group test-all")

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import rlock
from rlock import events
from rlock.telemetry import prometheus
from rlock.telemetry.instruments import ALL
from rlock.telemetry.labels import LIMIT, OTHER

from ..docs.pages import lay_out, starter
from ..environments.programs import gunicorn, needs
from ..lock.test_lifecycle import forked
from ..servers import Fleet
from . import happenings as made


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def enabled(registry: CollectorRegistry) -> Iterator[prometheus.Enabled]:
    handle = prometheus.enable(registry)
    yield handle
    handle.disable()


def labels_of(registry: CollectorRegistry, name: str, label: str) -> set[str]:
    return {
        sample.labels[label]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == name and label in sample.labels
    }


@pytest.mark.usefixtures("enabled")
def test_every_metric_has_a_value_after_one_of_each_event(registry: CollectorRegistry) -> None:
    for event in made.ALL:
        events.emit(event)
    value = registry.get_sample_value
    orders = {"lock": "orders"}
    m1 = {"master": "m1:6379"}
    expected: list[tuple[str, dict[str, str], float]] = [
        ("redlock_acquire_duration_seconds_count", {**orders, "outcome": "acquired"}, 2),
        ("redlock_acquire_duration_seconds_sum", {**orders, "outcome": "acquired"}, 0.202),
        ("redlock_acquire_duration_seconds_sum", {**orders, "outcome": "busy"}, 0.5),
        ("redlock_wait_seconds_count", orders, 1),
        ("redlock_wait_seconds_sum", orders, 0.2),
        ("redlock_held_seconds_count", orders, 2),
        ("redlock_held_seconds_sum", orders, 4.5),
        ("redlock_held", orders, 0),
        ("redlock_waiting", orders, 0),
        ("redlock_queue_length_sum", orders, 4),
        ("redlock_hand_offs_total", orders, 1),
        ("redlock_losses_total", {**orders, "cause": "expired"}, 1),
        ("redlock_releases_unsure_total", orders, 2),
        ("redlock_quorum_size", orders, 2),
        ("redlock_renewals_total", {}, 10),
        ("redlock_renewal_failures_total", {}, 2),
        ("redlock_renewal_duration_seconds_sum", {}, 0.004),
        ("redlock_master_up", m1, 1),
        ("redlock_master_heard", m1, 0),
        ("redlock_node_failures_total", {**m1, "kind": "timeout"}, 1),
        ("redlock_master_slow_total", m1, 1),
        ("redlock_guarded_votes_total", m1, 1),
        ("redlock_healed_locks_total", m1, 3),
        ("redlock_unknown_messages_total", m1, 1),
        ("redlock_group_replicas", m1, 2),
        ("redlock_group_replicas_acknowledged", m1, 1),
        ("redlock_group_promotions_total", m1, 1),
    ]
    for name, labels, number in expected:
        assert value(name, labels) == pytest.approx(number), name
    seen = {name.removesuffix("_count").removesuffix("_sum") for name, _, _ in expected}
    assert seen == {instrument.name for instrument in ALL}


@pytest.mark.usefixtures("enabled")
def test_gauges_follow_what_is_held_and_waited_for(registry: CollectorRegistry) -> None:
    now = partial(registry.get_sample_value, labels={"lock": "orders"})
    events.emit(made.not_acquired("busy", queued=True))  # it was queued before anybody counted
    assert now("redlock_waiting") == 0
    events.emit(made.acquired(owner="a"))
    events.emit(made.acquired("orders:43", owner="b"))
    events.emit(events.Queued("orders:44", 1))
    events.emit(events.Queued("orders:44", 2))
    events.emit(events.MasterFailed("m1", "down", "refused"))
    assert (now("redlock_held"), now("redlock_waiting")) == (2, 2)
    assert registry.get_sample_value("redlock_master_up", {"master": "m1"}) == 0
    events.emit(events.MasterAnswers("m1"))
    events.emit(events.MasterAnswers("m1", messages=True))
    events.emit(events.MasterFailed("m1", "broken", "reset", messages=True))
    assert registry.get_sample_value("redlock_master_heard", {"master": "m1"}) == 0
    assert registry.get_sample_value("redlock_master_up", {"master": "m1"}) == 1
    assert labels_of(registry, "redlock_node_failures_total", "kind") == {"down"}
    events.emit(made.lost(owner="a"))
    events.emit(made.released(owner="nobody: acquired before"))
    events.emit(made.not_acquired("interrupted", "orders:44", queued=True))
    assert (now("redlock_held"), now("redlock_waiting")) == (1, 1)
    events.emit(made.not_acquired("busy", "orders:44"))  # another acquire, that never stood in the queue
    assert now("redlock_waiting") == 1
    assert registry.get_sample_value("redlock_wait_seconds_count", {"lock": "orders"}) == 2
    assert labels_of(registry, "redlock_held", "lock") == {"orders"}


@pytest.mark.usefixtures("enabled")
def test_names_of_locks_make_few_labels(registry: CollectorRegistry) -> None:
    for number in range(LIMIT + 20):
        events.emit(made.acquired(f"tenant-{number}:{number}", f"o{number}"))
        events.emit(made.acquired(f"tenant-0:{number}", f"p{number}"))
        events.emit(events.MasterAnswers(f"m{number}"))
    locks = labels_of(registry, "redlock_held", "lock")
    assert len(locks) == LIMIT + 1
    assert OTHER in locks
    assert registry.get_sample_value("redlock_held", {"lock": OTHER}) == 20
    assert registry.get_sample_value("redlock_held", {"lock": "tenant-0"}) == LIMIT + 21
    assert len(labels_of(registry, "redlock_master_up", "master")) == LIMIT + 1


def test_twice_on_one_registry_is_refused(registry: CollectorRegistry, enabled: prometheus.Enabled) -> None:
    with pytest.raises(rlock.OptionsError, match=r"enable\(\) once"):
        prometheus.enable(registry)
    events.emit(made.acquired())
    assert registry.get_sample_value("redlock_held", {"lock": "orders"}) == 1
    enabled.disable()
    enabled.disable()
    assert list(registry.collect()) == []
    prometheus.enable(registry).disable()


@pytest.mark.parametrize(
    ("module", "package"), [("prometheus", "prometheus-client"), ("opentelemetry", "opentelemetry-api")]
)
def test_without_the_package_the_import_says_what_to_install(module: str, package: str) -> None:
    missing = package.partition("-")[0] + ("_client" if module == "prometheus" else "")
    program = f"import sys; sys.modules[{missing!r}] = None; import rlock.telemetry.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: rlock.telemetry")
    assert f"pip install {package}" in done.stderr.strip().splitlines()[-1]


@pytest.mark.usefixtures("enabled")
def test_a_forked_child_holds_nothing_and_waits_for_nothing(registry: CollectorRegistry) -> None:
    now = partial(registry.get_sample_value, labels={"lock": "orders"})
    events.emit(made.acquired(owner="parent's"))
    events.emit(events.Queued("orders:42", 1))

    def look() -> None:
        assert now("redlock_held") == 0
        assert now("redlock_waiting") == 0
        events.emit(made.acquired(owner="child's"))
        assert now("redlock_held") == 1
        events.emit(made.released(owner="parent's"))  # not the child's to count
        assert now("redlock_held") == 1

    assert forked(look) == "None"
    assert now("redlock_held") == 1


@needs("gunicorn")
def test_gunicorns_workers_count_together_and_the_dead_hold_nothing(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    lay_out("metrics.md", tmp_path)

    with starter(tmp_path, masters3.urls, PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "files")) as start:
        _, get = gunicorn(start, "-w 3 -c gunicorn.conf.py app:app", "up")

        def samples() -> dict[str, float]:
            """The last of each name."""
            families = text_string_to_metric_families(get("metrics").decode())
            return {sample.name: sample.value for family in families for sample in family.samples}

        asked, pids = 1, set[str]()
        while len(pids) < 3:
            pids.add(get("x").decode())
            asked += 1
            assert asked < 1000, "the requests all went to one worker"
        told = samples()
        assert told["redlock_acquire_duration_seconds_count"] == told["redlock_held_seconds_count"] == asked
        assert (told["redlock_held"], told["redlock_master_up"]) == (0, 1)
        os.kill(int(pids.pop()), signal.SIGKILL)
        get("x")
        assert samples()["redlock_acquire_duration_seconds_count"] == asked + 1
