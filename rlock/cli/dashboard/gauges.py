"""The last look as Prometheus gauges. No label is a lock's name: there may be any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..scan.snapshot import Snapshot
from .poller import Sight

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily


def page(sight: Sight) -> bytes:
    """The text that Prometheus scrapes. Needs prometheus-client."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Last(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            # No values are better than wrong ones.
            return iter(()) if sight.snapshot is None else _gauges(sight.snapshot, sight.age or 0.0)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Last())
    return bytes(generate_latest(registry))


def _gauges(snapshot: Snapshot, age: float) -> Iterator[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    lengths = [lock.queue_length for lock in snapshot.locks]
    held = sum(lock.locked for lock in snapshot.locks)
    waited = sum(length > 0 for length in lengths)
    for name, meaning, value in (
        ("redlock_locks_held", "Locks that a quorum says are held.", held),
        ("redlock_locks_waited", "Locks that somebody waits for.", waited),
        ("redlock_waiters", "Places in the queues of all locks.", sum(lengths)),
        ("redlock_queue_length_max", "Places in the longest queue.", max(lengths, default=0)),
        ("redlock_locks_more", "1: there were more locks than are counted.", float(snapshot.more)),
        ("redlock_survey_age_seconds", "Time since the look that these values are of.", age),
    ):
        yield GaugeMetricFamily(name, meaning, value=value)
    up = GaugeMetricFamily("redlock_master_up", "1: the master answered.", labels=["master"])
    of_master = {
        "latency": ("redlock_master_latency_seconds", "Round trip of one command."),
        "clock_offset": ("redlock_master_clock_offset_seconds", "Clock ahead of the median of the masters."),
        "guarded": ("redlock_master_guarded_seconds", "For how long the restart guard gives it no vote."),
        "replicas": ("redlock_group_replicas", "Replicas that are configured for a group."),
        "acknowledged": ("redlock_group_replicas_acknowledged", "Replicas that acknowledge."),
        "locks": ("redlock_master_locks", "Keys of locks that were seen on it."),
    }
    families = {field: GaugeMetricFamily(*told, labels=["master"]) for field, told in of_master.items()}
    for health in snapshot.masters:
        up.add_metric([health.master], float(health.fault is None))
        for field, family in families.items():
            found = getattr(health if hasattr(health, field) else health.group, field, None)
            if health.fault is None and found is not None:
                family.add_metric([health.master], found)
    yield from (up, *families.values())
