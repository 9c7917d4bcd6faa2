"""Order: does anybody overtake in fair mode, and what do dead and stopped waiters cost?

    python bench/order.py [--acquisitions 1000] [--trials 20] [--masters 5] [--json FILE]

- FIFO: processes with two threads each acquire a fair lock after random pauses. A violation is a pair in
  which A stood in the queue (the round that gave it its place was complete) before B began to ask, and B
  entered first.
- killed: of three waiting processes the first is ended with SIGKILL, then the lock is released. Told is the
  time from before the release until the second has it.
- stopped: the same with SIGSTOP, and whether the first comes before the third when it goes on.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import rlock
from rlock.testing.local.embedded import Masters

BUDGET_KILLED_S, BUDGET_STOPPED_S = 0.1, 2.0

CROWD = """
import json, random, sys, threading, time
import rlock
from rlock._client.calls import Calls
from rlock.rules import scripts

start, count, *urls = sys.argv[1:]
TRYING = 5  # arguments of one that takes no place
noted, queued, ask = [], threading.local(), Calls.asking

def watch(self, step):
    ballot = yield from ask(self, step)
    if step.command.script is scripts.ACQUIRE and ballot.granted < ballot.quorum and queued.at is None:
        # The very first round takes no place: one who has not subscribed yet could not hear its turn.
        words = step.command.by_sha()
        if len(words) > 3 + int(words[2]) + TRYING:
            queued.at = time.monotonic_ns()
    return ballot

Calls.asking = watch
client = rlock.Client(urls)

def work():
    dice = random.Random()
    while time.monotonic() < float(start):
        time.sleep(0.001)
    for _ in range(int(count)):
        time.sleep(dice.uniform(0.0, 0.02))
        queued.at, began = None, time.monotonic_ns()
        with client.lock("fifo", fair=True):
            noted.append((began, queued.at, time.monotonic_ns()))
            time.sleep(dice.uniform(0.0, 0.002))

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(noted))
"""

WAITER = """
import sys, time, rlock
client = rlock.Client(sys.argv[1:])
print("up", flush=True)
with client.lock("x", fair=True):
    print(time.monotonic_ns(), flush=True)
    sys.stdin.readline()
"""


def fifo(urls: list[str], acquisitions: int, processes: int) -> dict[str, int]:
    """Violations among at least so many acquisitions that had to queue."""
    each = 2 * acquisitions // (2 * processes)
    start = time.monotonic() + 2.0
    command = [sys.executable, "-c", CROWD, str(start), str(each), *urls]
    crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    noted: list[tuple[int, int | None, int]] = []
    for one in crowd:
        noted += [tuple(entry) for entry in json.loads(one.communicate()[0])]
    noted.sort(key=lambda entry: entry[2])
    violations = sum(
        1
        for i, (_, queued, _) in enumerate(noted)
        if queued is not None
        for began, _, _ in noted[:i]  # they entered before
        if queued < began
    )
    waited = sum(1 for _, queued, _ in noted if queued is not None)
    return {"acquisitions": len(noted), "queued": waited, "violations": violations}


class Waiter:
    """A process that stands in the queue of "x"."""

    def __init__(self, client: rlock.Client, urls: list[str]) -> None:
        before = client.status("x").queue_length
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITER, *urls], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.line()
        while client.status("x").queue_length <= before:
            time.sleep(0.005)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def entered(self) -> int:
        return int(self.line())

    def go_on(self) -> None:
        self.process.communicate("\n")


def killed(urls: list[str], trials: int) -> list[float]:
    """Seconds from the release until the second waiter has it."""
    took = []
    with rlock.Client(urls) as client:
        for _ in range(trials):
            with client.lock("x"):
                first, second = Waiter(client, urls), Waiter(client, urls)
                first.process.kill()
                first.process.wait()
                released = time.monotonic_ns()
            took.append((second.entered() - released) / 1e9)
            second.go_on()
    return took


def stopped(urls: list[str], trials: int) -> tuple[list[float], int]:
    """The same for a stopped one; and how often it came before the third when it went on."""
    took, kept = [], 0
    with rlock.Client(urls) as client:
        for _ in range(trials):
            with client.lock("x"):
                first, second, third = (Waiter(client, urls) for _ in range(3))
                first.process.send_signal(signal.SIGSTOP)
                released = time.monotonic_ns()
            took.append((second.entered() - released) / 1e9)
            first.process.send_signal(signal.SIGCONT)
            while client.status("x").queue_length < 2:
                time.sleep(0.005)
            second.go_on()
            entered = first.entered()
            first.go_on()
            kept += entered < third.entered()
            third.go_on()
    return took, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--acquisitions", type=int, default=1000, help="that queued (default 1000)")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--masters", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with Masters(options.masters) as masters:
        result["fifo"] = fifo(masters.urls, options.acquisitions, options.processes)
        print("fifo    {queued} of {acquisitions} queued, violations {violations}".format(**result["fifo"]))
        dead = killed(masters.urls, options.trials)
        result["killed_s"] = dead
        told = f"median {statistics.median(dead) * 1e3:.1f} ms, longest {max(dead) * 1e3:.1f} ms"
        print(f"killed  {told} (budget {BUDGET_KILLED_S * 1e3:g} ms)")
        asleep, kept = stopped(masters.urls, max(1, options.trials // 2))
        result["stopped_s"], result["kept_its_place"] = asleep, kept
        told = f"median {statistics.median(asleep):.2f} s, longest {max(asleep):.2f} s"
        print(f"stopped {told} (budget {BUDGET_STOPPED_S:g} s), kept its place {kept} of {len(asleep)}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    enough = result["fifo"]["queued"] >= options.acquisitions
    in_time = max(dead) <= BUDGET_KILLED_S and max(asleep) <= BUDGET_STOPPED_S and kept == len(asleep)
    sys.exit(0 if enough and in_time and not result["fifo"]["violations"] else 1)


if __name__ == "__main__":
    main()
