"""The fleet as Prometheus gauges. No label is a lock's name: there may be any number of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .look import Scan
from .snapshot import Snapshot

#: Scrapes that come closer together get the same look.
EVERY_S = 0.9


class FleetCollector(Collector):
    """Looks at the masters when somebody scrapes. Any thread may ask."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._mutex = threading.Lock()
        self._looked_at = float("-inf")
        self._seen: Snapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges."""
        with self._mutex:
            if self._seen is None or time.monotonic() - self._looked_at > EVERY_S:
                self._seen = self._scan.look()
                self._looked_at = time.monotonic()
            seen = self._seen
        return gauges(seen)


def gauges(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    """The gauges of one look. A master without an answer has only `redlock_master_up`, with the value 0."""
    lengths = [lock.queue_length for lock in snapshot.locks]
    held = sum(lock.locked for lock in snapshot.locks)
    waited = sum(length > 0 for length in lengths)
    for name, meaning, value in (
        ("redlock_locks_held", "Locks that a quorum says are held.", held),
        ("redlock_locks_waited", "Locks that somebody waits for.", waited),
        ("redlock_waiters", "Places in the queues of all locks.", sum(lengths)),
        ("redlock_queue_length_max", "Places in the longest queue.", max(lengths, default=0)),
        ("redlock_locks_more", "1: there were more locks than are counted.", float(snapshot.more)),
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
