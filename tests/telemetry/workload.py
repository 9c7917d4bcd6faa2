"""A process that contends for locks, serves its metrics, and counts for itself what became of it all.

    python -m tests.telemetry.workload PORT URL,URL,URL

It prints ``ready``; when its standard input says ``stop`` it comes to an end and prints its counts as JSON,
but serves on until the input is closed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from random import Random

from prometheus_client import start_http_server

import rlock
import rlock.telemetry.prometheus

TTL = 2.0
REQUEST_TIMEOUT = 0.3


class Workload:
    """Threads that share a client and their counts."""

    def __init__(self, urls: list[str], seed: str) -> None:
        self._client = rlock.Client(urls, TTL, max_ttl=TTL, request_timeout=REQUEST_TIMEOUT)
        self._seed = seed
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._counts: Counter[str] = Counter()

    def run(self) -> dict[str, int]:
        """Until the input says so."""
        threads = [threading.Thread(target=self._contend, args=(number,)) for number in range(3)]
        threads.append(threading.Thread(target=self._keep))
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.readline()
        self._stop.set()
        for thread in threads:
            thread.join()
        time.sleep(0.5)  # the last on_lost runs in a thread of its own
        with self._mutex:
            return dict(self._counts)

    def _count(self, what: str) -> None:
        with self._mutex:
            self._counts[what] += 1

    def _lock(self, name: str) -> rlock.RLock:
        return self._client.lock(name, on_lost=lambda error: self._count("lost"))

    def _acquire(self, lock: rlock.RLock, timeout: float) -> bool:
        try:
            got = lock.acquire(timeout=timeout)
        except rlock.QuorumUnreachableError:
            self._count("unreachable")
            return False
        self._count("acquired" if got else "busy")
        return got

    def _release(self, lock: rlock.RLock) -> None:
        try:
            lock.release()
        except rlock.LeaseLostError:
            pass  # on_lost has counted it

    def _contend(self, number: int) -> None:
        dice = Random(f"{self._seed}/{number}")
        while not self._stop.is_set():
            lock = self._lock(f"orders:{dice.randrange(2)}")
            if self._acquire(lock, dice.choice([0.0, 0.05, 2.0])):
                time.sleep(dice.uniform(0.005, 0.02))
                self._release(lock)
            time.sleep(0.005)

    def _keep(self) -> None:
        """Hold a lock that has to be renewed, and again when it was lost."""
        lock = self._lock(f"nightly:{self._seed}")
        while not self._stop.is_set():
            if self._acquire(lock, 1.0):
                lost = lock.lost
                while not self._stop.is_set() and not lost.wait(0.1):
                    pass
                self._release(lock)


if __name__ == "__main__":
    rlock.telemetry.prometheus.enable()
    start_http_server(int(sys.argv[1]), "127.0.0.1")
    print(json.dumps(Workload(sys.argv[2].split(","), sys.argv[1]).run()), flush=True)
    sys.stdin.read()
