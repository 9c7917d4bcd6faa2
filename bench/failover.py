"""Overlapping holds of other locks during failovers of one group, by the harness that tests rlock.

    python -m bench.failover [--minutes 1] [--kinds command,stop,...] [--locks pottery,redisson-rlock,...]

One primary, one replica, three Sentinels, a ttl of 2 s. Six threads want one lock and hold it for a moment.
Each has a client of its own through the Sentinels; of pottery and Redisson two threads share a process
and a client. A hold counts from the return of acquire until the call of release, or until 2 s after the
call of acquire: its lease may end then. Holds that begin during another one are counted.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import redis
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

import rlock
from bench.harness.contestants import BY_KEY
from bench.harness.sections import Section, overlaps, sections_of
from bench.harness.turns import Runners, replies
from rlock.testing.local.embedded import EmbeddedError, find_server
from tests.groups.group import SERVICE, ReplicatedGroup
from tests.servers import PASSWORD

TTL, THREADS, PROCESSES = 2.0, 6, 3
#: Seconds from one failover to the next.
PAUSE = 5.0
#: Processes go on so long for the last failover.
LATER = 15.0

#: Acquire and release of one thread.
Pair = tuple[Callable[[], bool], Callable[[], object]]
#: The number of failovers, and the holds.
Result = tuple[int, list[Section]]


def redis_py(group: ReplicatedGroup, wait: bool) -> Pair:
    """redis-py's Lock; with ``wait`` a WAIT for the replica, without which the hold is given up."""
    options = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}
    hosts = [("127.0.0.1", sentinel.port) for sentinel in group.sentinels]
    client = redis.sentinel.Sentinel(
        hosts, sentinel_kwargs={**options, "password": PASSWORD}, password=PASSWORD, **options
    ).master_for(SERVICE)
    lock = client.lock("other", timeout=TTL, blocking_timeout=0.2, sleep=0.01, thread_local=False)

    def acquire() -> bool:
        if not lock.acquire():
            return False
        if wait and client.wait(1, 200) < 1:
            with suppress(redis.RedisError, redis.exceptions.LockError):
                lock.release()
            return False
        return True

    return acquire, lock.release


def ours(group: ReplicatedGroup, wait: bool) -> Pair:
    """rlock, with the acknowledgement of the replica or without."""
    client = rlock.Client(group.url_with(1 if wait else 0), ttl=TTL, max_ttl=TTL)
    lock = client.lock("ours", renew=False)
    return partial(lock.acquire, timeout=0.2), lock.release


def of_threads(make: Callable[[], Pair], disturb: Callable[[], int], hold_s: float) -> Result:
    """The holds of threads of this process."""
    over, holds = threading.Event(), list[Section]()

    def work(number: int) -> None:
        acquire, release = make()
        while not over.is_set():
            with suppress(redis.RedisError, redis.exceptions.LockError, rlock.RLockError):
                asked = time.monotonic_ns()
                if acquire():
                    entered = time.monotonic_ns()
                    time.sleep(hold_s)
                    holds.append(Section(0, number, asked, entered, time.monotonic_ns()))
                    release()
            time.sleep(0.005)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    failovers = disturb()
    over.set()
    for thread in threads:
        thread.join()
    return failovers, holds


def of_processes(
    key: str, group: ReplicatedGroup, disturb: Callable[[], int], seconds: float, hold_s: float
) -> Result:
    """The holds of a contestant's workers, as long as the failovers go on."""
    url = group.url_with(1).partition("?")[0]
    with Runners([(BY_KEY[key], [url])] * PROCESSES, round(TTL * 1000)) as processes:
        load = {"lock": "other", "threads": THREADS // PROCESSES, "hold_us": round(hold_s * 1e6)}
        now = time.monotonic_ns()
        load |= {"wait_ms": 200, "start_ns": now, "stop_ns": now + round((seconds + LATER) * 1e9)}
        for runner in processes.runners:
            runner.send("loop", **load)
        failovers = disturb()
        over = time.monotonic_ns()
        holds, _ = sections_of(replies(processes.runners, 4 * LATER))
    return failovers, [hold for hold in holds if hold.entered < over]


def disturb_group(group: ReplicatedGroup, kind: str, seconds: float) -> int:
    """Failovers, one after another; their number."""
    failovers, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.0)
        with suppress(AssertionError, redis.RedisError, EmbeddedError):
            fail(group, kind)
            failovers += 1
            time.sleep(PAUSE)
            group.mend()
    return failovers


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


def main() -> None:
    """Run all, print a table."""
    locks: dict[str, tuple[Callable[[ReplicatedGroup, bool], Pair], bool] | None] = {
        "redis-py": (redis_py, False),
        "redis-py-then-wait": (redis_py, True),
        "pottery": None,
        "redisson-rlock": None,
        "rlock-replicas-0": (ours, False),
        "rlock-replicas-1": (ours, True),
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each lock and kind")
    parser.add_argument("--kinds", default="command,stop,partition,empty")
    parser.add_argument("--locks", default=",".join(locks))
    parser.add_argument("--hold", type=float, default=0.15, help="seconds of each hold")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seconds = options.minutes * 60
    print(f"{'lock':<28}{'kind':<12}{'failovers':>10}{'holds':>8}{'overlaps':>10}")
    for kind, key in itertools.product(options.kinds.split(","), options.locks.split(",")):
        with ReplicatedGroup(find_server(), 1, 3) as group:
            disturb = partial(disturb_group, group, kind, seconds)
            if (pair := locks[key]) is None:
                failovers, holds = of_processes(key, group, disturb, seconds, options.hold)
            else:
                failovers, holds = of_threads(partial(pair[0], group, pair[1]), disturb, options.hold)
        cut = [hold._replace(left=min(hold.left, hold.asked + round(TTL * 1e9))) for hold in holds]
        valid = [hold for hold in cut if hold.entered < hold.left]
        print(f"{key:<28}{kind:<12}{failovers:>10}{len(valid):>8}{overlaps(valid):>10}", flush=True)


if __name__ == "__main__":
    main()
