"""The cost of metrics and spans: an uncontended acquire + release, with and without observers.

    python bench/telemetry_cost.py [--seconds 20] [--masters 3]

All observers take turns in one process on the same masters, so that noise of the machine hits all alike. Read
the ratios, not the times; the second "nothing" shows how much of a ratio is noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
import timeit
from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

import rlock
from rlock import events
from rlock.telemetry import opentelemetry, prometheus
from rlock.testing.local.embedded import Masters

BURST = 10


def observers() -> dict[str, tuple[events.Observer, ...]]:
    """The observers of each row, made by `enable` as any program does. OpenTelemetry has no exporter."""
    prometheus.enable(CollectorRegistry())
    for_prometheus, events._observers = events._observers, ()
    opentelemetry.enable(TracerProvider(), MeterProvider([InMemoryMetricReader()]))
    for_opentelemetry, events._observers = events._observers, ()
    both = for_prometheus + for_opentelemetry
    one_each = {"prometheus": for_prometheus, "opentelemetry": for_opentelemetry}
    return {"nothing": (), **one_each, "both": both, "nothing, again": ()}


def measure(urls: Sequence[str], seconds: float) -> dict[str, list[float]]:
    """Seconds of each pair, by observers."""
    rows = observers()
    times: dict[str, list[float]] = {name: [] for name in rows}
    with rlock.Client(list(urls), 10.0) as client:
        lock = client.lock("bench:cost")
        for _ in range(100):
            with lock:
                pass
        until = time.perf_counter() + seconds
        order = list(rows)
        while time.perf_counter() < until:
            order.append(order.pop(0))  # otherwise the same row always follows the slowest one
            for name in order:
                # Not enable() and disable(): they cost more than a pair.
                events._observers = rows[name]
                for _ in range(BURST):
                    began = time.perf_counter()
                    lock.acquire()
                    lock.release()
                    times[name].append(time.perf_counter() - began)
        events._observers = ()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--masters", type=int, default=3)
    options = parser.parse_args()
    with Masters(options.masters) as masters:
        times = measure(masters.urls, options.seconds)
    floor = statistics.median(times["nothing"])
    print(f"N = {options.masters}, {len(times['nothing']):,} pairs each, interleaved")
    for name, values in times.items():
        median = statistics.median(values)
        print(
            f"  {name:<16} {median * 1e6:8.1f} us {(median - floor) * 1e6:8.1f} us more {median / floor:7.3f}"
        )
    asked = min(timeit.repeat(events.observed, number=100_000, repeat=5)) / 100_000
    print(f"asking whether there is an observer: {asked * 1e9:.0f} ns, {asked / floor:.2e} of a pair")


if __name__ == "__main__":
    main()
