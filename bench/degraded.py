"""Uncontended acquire + release with two of five masters stopped or killed, against all five healthy.

    python bench/degraded.py [--seconds 20]

Three fleets of five embedded masters each, one client each, one pair on each in turn. The client of a
degraded fleet has noticed before the clock starts; its background probes go on while it is measured.
Budget: p50 within 1.2 x, p99 within 2 x of healthy.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time

import rlock
from rlock.program.local.embedded import Masters


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        locks: dict[str, rlock.RLock] = {}
        for state in ("healthy", "two stopped", "two killed"):
            masters = stack.enter_context(Masters(5))
            client = stack.enter_context(rlock.Client(masters.urls))
            locks[state] = client.lock("x")
            for _ in range(100):
                with locks[state]:
                    pass
            for master in list(masters)[3:]:
                if state == "two stopped":
                    master.pause()
                elif state == "two killed":
                    master.kill()
        warm_until = time.monotonic() + 1.5
        while time.monotonic() < warm_until:
            for lock in locks.values():
                with lock:
                    pass
        times: dict[str, list[float]] = {state: [] for state in locks}
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            for state, lock in locks.items():
                began = time.perf_counter()
                lock.acquire()
                lock.release()
                times[state].append(time.perf_counter() - began)
    p50 = {state: statistics.median(values) for state, values in times.items()}
    p99 = {state: statistics.quantiles(values, n=100)[98] for state, values in times.items()}
    print(f"N = 5, {len(times['healthy']):,} pairs each, interleaved")
    print(f"  {'':<12} {'p50 ms':>8} {'ratio':>7} {'p99 ms':>8} {'ratio':>7}")
    kept = True
    for state in times:
        ratios = p50[state] / p50["healthy"], p99[state] / p99["healthy"]
        print(
            f"  {state:<12} {p50[state] * 1e3:8.3f} {ratios[0]:7.2f} {p99[state] * 1e3:8.3f} {ratios[1]:7.2f}"
        )
        kept = kept and ratios[0] <= 1.2 and ratios[1] <= 2.0
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
