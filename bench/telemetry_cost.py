"""What metrics and traces cost: an uncontended acquire + release, with and without observers.

    python bench/telemetry_cost.py [--seconds 20] [--masters 3] [--json FILE]

Everything runs interleaved in one process on the same embedded masters: some pairs of each contestant in
turn, so that noise of the machine hits all alike. What to read are the ratios, not the milliseconds; the
second "nothing" says how much of a ratio is noise.

- nothing: no observer, as without `enable()`. What the lock does then is ask whether there is one.
- prometheus: prometheus_client's metrics, in memory.
- opentelemetry: the SDK's metrics, and spans that are sampled and thrown away (no exporter).
- both: as it says.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import timeit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

import rlock
from rlock import events
from rlock.telemetry import opentelemetry, prometheus
from rlock.testing.local.embedded import Masters

BURST = 10
Observers = tuple[events.Observer, ...]


def contestants() -> dict[str, Observers]:
    """The observers of each, made by `enable` as any program does."""
    made: dict[str, Observers] = {"nothing": ()}
    prometheus.enable(CollectorRegistry())
    made["prometheus"] = events._observers
    events._observers = ()
    opentelemetry.enable(TracerProvider(), MeterProvider([InMemoryMetricReader()]))
    made["opentelemetry"] = events._observers
    made["both"] = made["prometheus"] + made["opentelemetry"]
    made["nothing, again"] = ()
    events._observers = ()
    return made


def measure(urls: Sequence[str], seconds: float) -> dict[str, list[float]]:
    all_ = contestants()
    times: dict[str, list[float]] = {name: [] for name in all_}
    with rlock.Client(list(urls), 10.0) as client:
        lock = client.lock("bench:cost")
        for _ in range(100):
            with lock:
                pass
        until = time.perf_counter() + seconds
        order = list(all_)
        while time.perf_counter() < until:
            order.append(order.pop(0))  # nobody is always first after another's burst
            for name in order:
                # Not enable() and disable(): they would cost more than what is measured.
                events._observers = all_[name]
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
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    with Masters(options.masters) as masters:
        machine = f"Python {platform.python_version()}, {masters[0].binary}, {platform.machine()}"
        times = measure(masters.urls, options.seconds)
    floor = statistics.median(times["nothing"])
    rows: dict[str, Any] = {}
    print(f"{machine}\nN = {options.masters}, {len(times['nothing']):,} pairs each, interleaved")
    print(f"  {'':<16} {'p50 us':>8} {'more us':>8} {'ratio':>7}")
    for name, values in times.items():
        median = statistics.median(values)
        rows[name] = {"p50_us": median * 1e6, "ratio": median / floor}
        print(f"  {name:<16} {median * 1e6:8.1f} {(median - floor) * 1e6:8.1f} {median / floor:7.3f}")
    asked = min(timeit.repeat(events.observed, number=100_000, repeat=5)) / 100_000
    print(f"asking whether there is an observer: {asked * 1e9:.0f} ns, {asked / floor:.2e} of a pair")
    if options.json:
        told = {"machine": machine, "masters": options.masters, "contestants": rows, "asked_ns": asked * 1e9}
        options.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
