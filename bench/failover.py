"""Overlapping holds of other locks during failovers of one group, by the harness that tests rlock.

    python -m bench.failover [--minutes 1] [--kinds command,stop,empty,partition]

One primary, one replica, three Sentinels, a ttl of 2 s. Six threads, each with a client of its own through
the Sentinels, want one lock and hold it for a moment. A hold counts from the return of acquire until the call
of release, or until its lease ends. Holds of different threads that overlap are counted.
"""

from __future__ import annotations

import argparse
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import redis
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

import rlock
from rlock.testing.local.embedded import EmbeddedError, find_server
from tests.groups.group import PASSWORD, SERVICE, ReplicatedGroup

TTL, THREADS = 2.0, 6
#: Seconds from one failover to the next.
PAUSE = 5.0

#: Acquire and release of one thread; acquire gives the end of the lease, or None.
Pair = tuple[Callable[[], float | None], Callable[[], object]]


def redis_py(group: ReplicatedGroup, wait: bool) -> Pair:
    """redis-py's Lock; with ``wait`` a WAIT for the replica, without which the hold is given up."""
    options = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}
    hosts = [("127.0.0.1", sentinel.port) for sentinel in group.sentinels]
    client = redis.sentinel.Sentinel(hosts, sentinel_kwargs=options, password=PASSWORD, **options).master_for(
        SERVICE
    )
    lock = client.lock("other", timeout=TTL, blocking_timeout=0.2, sleep=0.01, thread_local=False)

    def acquire() -> float | None:
        asked_at = time.monotonic()
        if not lock.acquire():
            return None
        if wait and client.wait(1, 200) < 1:
            with suppress(redis.RedisError, redis.exceptions.LockError):
                lock.release()
            return None
        return asked_at + TTL

    return acquire, lock.release


def ours(group: ReplicatedGroup, wait: bool) -> Pair:
    """rlock, with the acknowledgement of the replica or without."""
    client = rlock.Client(group.url_with(1 if wait else 0), ttl=TTL, max_ttl=TTL)
    lock = client.lock("ours", renew=False)

    def acquire() -> float | None:
        return time.monotonic() + lock.remaining() if lock.acquire(timeout=0.2) else None

    return acquire, lock.release


def overlaps(
    group: ReplicatedGroup, make: Callable[[], Pair], kind: str, seconds: float
) -> tuple[int, int, int]:
    """Failovers, holds, and those that began while another thread's hold was valid."""
    over, holds = threading.Event(), list[tuple[float, float, int]]()

    def work(number: int) -> None:
        acquire, release = make()
        while not over.is_set():
            with suppress(redis.RedisError, redis.exceptions.LockError, rlock.RLockError):
                if (until := acquire()) is not None:
                    began = time.monotonic()
                    time.sleep(random.uniform(0.0, 0.3))
                    holds.append((began, min(time.monotonic(), until), number))
                    release()
            time.sleep(0.005)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    failovers, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.0)
        with suppress(AssertionError, redis.RedisError, EmbeddedError):
            fail(group, kind)
            failovers += 1
            time.sleep(PAUSE)
            group.mend()
    over.set()
    for thread in threads:
        thread.join()
    return failovers, len(holds), count(sorted(holds))


def fail(group: ReplicatedGroup, kind: str) -> None:
    """One failover."""
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


def count(holds: list[tuple[float, float, int]]) -> int:
    """Holds that began before an earlier hold of another thread had ended."""
    found, latest = 0, (0.0, -1)
    for began, ended, thread in holds:
        found += began < latest[0] and thread != latest[1]
        latest = max(latest, (ended, thread))
    return found


def main() -> None:
    """Run all, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each lock and kind")
    parser.add_argument("--kinds", default="command,stop,partition,empty")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    locks: tuple[tuple[str, Callable[[ReplicatedGroup, bool], Pair], bool], ...] = (
        ("redis-py Lock", redis_py, False),
        ("redis-py Lock, then WAIT 1", redis_py, True),
        ("rlock, replicas=0", ours, False),
        ("rlock, replicas=1", ours, True),
    )
    print(f"{'lock':<28}{'kind':<12}{'failovers':>10}{'holds':>8}{'overlaps':>10}")
    for kind in options.kinds.split(","):
        for title, make, wait in locks:
            with ReplicatedGroup(find_server(), 1, 3) as group:
                told = overlaps(group, lambda: make(group, wait), kind, options.minutes * 60)  # noqa: B023
            print(f"{title:<28}{kind:<12}{told[0]:>10}{told[1]:>8}{told[2]:>10}", flush=True)


if __name__ == "__main__":
    main()
