"""The last look as Prometheus gauges. No label is a lock's name: there may be any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..scan.snapshot import MasterHealth, Snapshot
from .poller import Sight

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily


def text(sight: Sight) -> bytes:
    """The page that Prometheus scrapes. Needs prometheus-client."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Last(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            return _gauges(sight)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Last())
    return bytes(generate_latest(registry))


def _gauges(sight: Sight) -> Iterator[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    if sight.snapshot is None or sight.age is None:
        return  # no values are better than wrong ones
    for name, meaning, of in MASTER_GAUGES:
        family = GaugeMetricFamily(name, meaning, labels=["master"])
        for health in sight.snapshot.masters:
            value = of(health)
            if value is not None:
                family.add_metric([health.master], value)
        yield family
    for name, meaning, value in _of_locks(sight.snapshot):
        if value is not None:
            yield GaugeMetricFamily(name, meaning, value=value)
    yield GaugeMetricFamily(
        "redlock_survey_age_seconds", "Time since the look that these values are of.", value=sight.age
    )


def _answered(health: MasterHealth) -> bool:
    return health.fault is None


MASTER_GAUGES = (
    ("redlock_master_up", "1: the master answered.", lambda health: float(_answered(health))),
    (
        "redlock_master_latency_seconds",
        "Round trip of one command.",
        lambda health: health.latency if _answered(health) else None,
    ),
    (
        "redlock_master_clock_offset_seconds",
        "How far its clock is ahead of the median of the masters.",
        lambda health: health.clock_offset if _answered(health) else None,
    ),
    (
        "redlock_master_guarded_seconds",
        "For how long the restart guard gives it no vote.",
        lambda health: health.guarded if _answered(health) else None,
    ),
    (
        "redlock_master_locks",
        "Keys of locks that were seen on it.",
        lambda health: health.locks if _answered(health) else None,
    ),
)


def _of_locks(snapshot: Snapshot) -> Iterator[tuple[str, str, float | None]]:
    lengths = [lock.queue_length for lock in snapshot.locks]
    yield "redlock_locks_held", "Locks that a quorum says are held.", sum(x.locked for x in snapshot.locks)
    yield "redlock_locks_waited", "Locks that somebody waits for.", sum(length > 0 for length in lengths)
    yield "redlock_waiters", "Places in the queues of all locks.", sum(lengths)
    yield "redlock_queue_length_max", "Places in the longest queue.", max(lengths, default=0)
    yield "redlock_locks_more", "1: there were more locks than are counted.", float(snapshot.more)
    yield (
        "redlock_hand_offs_per_second",
        "Releases that named a next owner, since the look before.",
        snapshot.hand_offs_per_second,
    )
