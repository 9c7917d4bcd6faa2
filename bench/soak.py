"""Soak: processes that wait for few locks are killed, stopped and interrupted at random; what is left?

    python bench/soak.py [--minutes 10] [--processes 12] [--seed N]

Workers acquire three locks, default and fair, with and without a time-out, from several threads, and note
when they held which. Meanwhile a supervisor ends some of them with SIGKILL, lets others stand still for up
to three seconds (SIGSTOP, SIGCONT), interrupts some with SIGINT, and starts new ones. At the end

- no two notes of valid holds of one lock overlap;
- every worker that was not killed ended by itself;
- nothing is left on the masters: no lock, no queue, no subscription.

The longest time in which a lock changed hands not once is told beside it: a crashed holder costs its ttl
(1 s here), a stopped waiter that was handed the lock a second and a look.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from rlock.program.embedded import Masters

TTL = 1.0
LOCKS = ("a", "b", "{c}")
#: Until everything must be gone: a queue that nobody visits any more goes by itself.
GONE_WITHIN_S = 40.0

WORKER = """
import faulthandler, random, signal, sys, threading, time
import rlock

faulthandler.register(signal.SIGUSR1, all_threads=True)
path, seed, names, ttl, *urls = sys.argv[1:]
names = names.split()
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
notes = open(path, "a", buffering=1)
client = rlock.Client(urls, ttl=float(ttl))

def work(number, interruptible=False):
    dice = random.Random(f"{seed}/{number}")
    while not stop.is_set():
        name = dice.choice(names)
        lock = client.lock(name, fair=dice.random() < 0.5)
        got = False
        try:
            how = dice.random()
            if how < 0.1:
                got = lock.acquire(blocking=False)
            elif how < 0.5:
                got = lock.acquire(timeout=dice.uniform(0.0, 0.5))
            else:
                got = lock.acquire()
            if got:
                entered = time.monotonic_ns()
                time.sleep(dice.uniform(0.0, 0.01))
                # Valid up to here, if it still is; a stop may have come in between.
                left = time.monotonic_ns()
                if lock.remaining() > 0:
                    notes.write(f"{name} {entered} {left}\\n")
        except KeyboardInterrupt:
            pass
        except rlock.QuorumUnreachableError:
            pass
        finally:
            while True:
                try:
                    if lock.hold_count:
                        lock.release()
                    break
                except KeyboardInterrupt:
                    continue
                except rlock.RLockError:
                    break

threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
for thread in threads:
    thread.start()
signal.signal(signal.SIGINT, signal.default_int_handler)
while True:
    try:
        work("main")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for thread in threads:
            thread.join()
        break
    except KeyboardInterrupt:
        pass
"""


class Worker:
    def __init__(self, folder: Path, number: int, urls: list[str]) -> None:
        self.notes = folder / f"{number}.txt"
        command = [sys.executable, "-c", WORKER, str(self.notes), str(number), " ".join(LOCKS), str(TTL)]
        command += urls
        # Deaf to SIGINT until it is ready: an interrupt in the middle of an import ends it.
        ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
        self.process = subprocess.Popen(command, preexec_fn=ignore)

    def end(self) -> bool:
        """Ask it to end; whether it did so by itself."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            code = self.process.wait(60)
            if code:
                print(f"a worker ended with {code}", flush=True)
            return code == 0
        except subprocess.TimeoutExpired:
            print("a worker did not end", flush=True)
            self.process.send_signal(signal.SIGUSR1)  # where it stands
            time.sleep(1.0)
            self.process.kill()
            self.process.wait()
            return False


def disturb(
    workers: list[Worker], dice: random.Random, done: Counter[str], folder: Path, urls: list[str]
) -> None:
    """One fault to one worker."""
    at = dice.randrange(len(workers))
    worker, fault = workers[at], dice.choice(("kill", "kill", "stop", "interrupt"))
    done[fault] += 1
    if fault == "kill":
        worker.process.kill()
        worker.process.wait()
        workers[at] = Worker(folder, sum(done.values()) + 1000, urls)
    elif fault == "stop":
        worker.process.send_signal(signal.SIGSTOP)
        pause = dice.choice((0.05, 0.3, 1.5, 3.0))
        # Another process wakes it, so that others are disturbed meanwhile.
        subprocess.Popen(["sh", "-c", f"sleep {pause}; kill -CONT {worker.process.pid} 2>/dev/null"])
    else:
        worker.process.send_signal(signal.SIGINT)


def overlaps(folder: Path) -> tuple[int, int, dict[str, float]]:
    """Holds noted, pairs that overlap, and the longest time without a change for each lock."""
    holds: dict[str, list[tuple[int, int]]] = {}
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            parts = line.split()
            if len(parts) == 3:  # a killed worker may have left half a line
                holds.setdefault(parts[0], []).append((int(parts[1]), int(parts[2])))
    wrong, gaps = 0, {}
    for name, noted in holds.items():
        noted.sort()
        pairs = list(pairwise(noted))
        wrong += sum(1 for (_, left), (entered, _) in pairs if entered < left)
        gaps[name] = max((entered - left for (_, left), (entered, _) in pairs), default=0) / 1e9
    return sum(map(len, holds.values())), wrong, gaps


def left_behind(urls: list[str]) -> list[str]:
    """Keys and subscriptions on the masters."""
    left = []
    for url in urls:
        with redis.Redis.from_url(url, decode_responses=True) as master:
            told: Any = master.keys("*")
            channels: Any = master.pubsub_channels()
            left += [f"key {key}" for key in told] + [f"channel {channel}" for channel in channels]
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--masters", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    dice, done = random.Random(seed), Counter[str]()
    print(f"seed {seed}, {options.processes} processes of 3 threads, {options.minutes:g} min", flush=True)
    with Masters(options.masters) as masters, tempfile.TemporaryDirectory() as name:
        folder, urls = Path(name), masters.urls
        workers = [Worker(folder, i, urls) for i in range(options.processes)]
        until = time.monotonic() + options.minutes * 60
        while time.monotonic() < until:
            time.sleep(dice.expovariate(3.0))
            disturb(workers, dice, done, folder, urls)
        ended = sum(worker.end() for worker in workers)
        finished = time.monotonic()
        while (left := left_behind(urls)) and time.monotonic() - finished < GONE_WITHIN_S:
            time.sleep(0.2)
        gone = time.monotonic() - finished
        holds, wrong, gaps = overlaps(folder)
    result = {
        "seed": seed,
        "faults": dict(done),
        "holds": holds,
        "overlaps": wrong,
        "longest_gap_s": gaps,
        "ended_by_themselves": ended,
        "left": left,
        "gone_after_s": gone,
        "cpu_s": os.times().children_user + os.times().children_system,
    }
    for key, value in result.items():
        print(f"  {key:<20} {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if wrong or left or ended < options.processes else 0)


if __name__ == "__main__":
    main()
