"""Overlapping holds of locks during failovers of one group: safety, not speed.

    python -m bench.failover [--minutes 1] [--kinds command,stop,...] [--locks pottery,redisson-rlock,...]

One primary, one replica, three Sentinels, a ttl of 2 s. Three processes with two threads each want one lock
through the Sentinels and hold it for a moment. A hold counts from the return of acquire until the call of
release, or until 2 s after the call of acquire: its lease may end then. A hold overlaps if it begins during
another one.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import time
from contextlib import suppress
from dataclasses import replace

import redis

from bench.harness.contestants import BY_KEY
from bench.harness.sections import overlaps, sections_of
from bench.harness.turns import Runners, replies
from rlock.testing.local.embedded import EmbeddedError, find_server
from tests.groups.group import ReplicatedGroup

TTL_S, THREADS, PROCESSES = 2.0, 2, 3
#: Seconds from one failover to the next.
PAUSE_S = 5.0
#: Processes go on so long for the last failover.
LATER_S = 15.0
#: They look for the lock every few milliseconds, where they poll.
REDIS_PY, OURS = BY_KEY["redis-py-tuned"], BY_KEY["rlock"]
IN_GROUP = replace(OURS, adapter="adapters.rlock_blocking:InGroup")
#: By name: the contestant, and of rlock the setting `replicas`.
LOCKS = {
    "redis-py": (REDIS_PY, None),
    "redis-py-then-wait": (replace(REDIS_PY, adapter="adapters.redis_py:RedisPyThenWait"), None),
    "pottery": (BY_KEY["pottery"], None),
    "redisson-rlock": (BY_KEY["redisson-rlock"], None),
    "rlock-replicas-0": (IN_GROUP, 0),
    "rlock-replicas-1": (IN_GROUP, 1),
}


def measure(name: str, group: ReplicatedGroup, kind: str, seconds: float, hold_s: float) -> tuple[int, ...]:
    """How many failovers there were, how many holds, and how many of these overlap."""
    contestant, replicas = LOCKS[name]
    url = group.url_with(replicas or 0)
    url = url if replicas is not None else url.partition("?")[0]
    with Runners([(contestant, [url])] * PROCESSES, round(TTL_S * 1000)) as processes:
        load = {"lock": name, "threads": THREADS, "hold_us": round(hold_s * 1e6), "wait_ms": 200}
        load["stop_ns"] = time.monotonic_ns() + round((seconds + LATER_S) * 1e9)
        for runner in processes.runners:
            runner.send("loop", **load)
        failovers, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(1.0)
            with suppress(AssertionError, redis.RedisError, EmbeddedError):
                fail(group, kind)
                failovers += 1
                time.sleep(PAUSE_S)
                group.mend()
        over = time.monotonic_ns()
        sections, _ = sections_of(replies(processes.runners, 4 * LATER_S))
    ends = [min(each.left, each.asked + round(TTL_S * 1e9)) for each in sections]
    holds = [each._replace(left=left) for each, left in zip(sections, ends, strict=True)]
    valid = [hold for hold in holds if hold.entered < min(hold.left, over)]
    return failovers, len(valid), overlaps(valid)


def fail(group: ReplicatedGroup, kind: str) -> None:
    old = group.primary
    if kind == "empty":
        old.restart()  # before a Sentinel notices
    elif kind == "command":
        group.fail_over()
    elif kind == "stop":
        old.pause()
        time.sleep(2.5)
        old.resume()  # it goes on while the Sentinels have another primary
    else:
        group.shut_out(old)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each lock and kind")
    parser.add_argument("--kinds", default="command,stop,partition,empty")
    parser.add_argument("--locks", default=",".join(LOCKS))
    parser.add_argument("--hold", type=float, default=0.15, help="seconds of each hold")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{'lock':<28}{'kind':<12}{'failovers':>10}{'holds':>8}{'overlaps':>10}")
    for kind, name in itertools.product(options.kinds.split(","), options.locks.split(",")):
        with ReplicatedGroup(find_server(), 1, 3) as group:
            failovers, holds, both = measure(name, group, kind, options.minutes * 60, options.hold)
        print(f"{name:<28}{kind:<12}{failovers:>10}{holds:>8}{both:>10}", flush=True)


if __name__ == "__main__":
    main()
