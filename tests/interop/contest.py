"""Java and Python processes that want one lock for a minute: who got it, how fast, were there ever two.

``python -m tests.interop.contest --masters 3 --kill 1`` prints a table; the exit status is 1 for a violation.
Waiters of the two sides wake each other only where ``rlock.Client`` has ``interop="redisson"``.
``RLOCK_TEST_SERVER`` and ``RLOCK_TEST_REDISSON`` choose the server and the Redisson.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlock.testing.local.embedded import Master, Masters

from ..servers import AnyMaster, default_server
from .building import Build, build
from .journal import DIGITS, Delays, Overlap, Records, side
from .jvm import Jvm
from .worker import Task, shares_with_redisson

TOP = Path(__file__).resolve().parent.parent.parent
NAME = "contest"
#: After its time a worker waits for the lock once more, at worst for a lease of Redisson's.
END_S = 60.0


@dataclass(frozen=True)
class Plan:
    """Who takes part, and for how long."""

    seconds: float = 60.0
    javas: int = 2
    java_threads: int = 2
    pythons: int = 4
    python_threads: int = 1
    hold_ms: int = 2
    kind: str = "plain"  # Redisson's lock
    fair: bool = False  # rlock's
    watchdog_ms: int = 10_000
    #: How many masters are killed when half of the time is over; they stay away.
    kill: int = 0
    #: A control: Python's lock is another one, and the journals must show it.
    apart: bool = False


@dataclass(frozen=True)
class Result:
    """What a contest came to."""

    records: Records
    written: int
    ended_at: int
    memory_mb: Sequence[int] = field(default_factory=tuple)

    @property
    def overlaps(self) -> list[Overlap]:
        return self.records.overlaps()

    @property
    def lost_updates(self) -> int:
        return self.records.lost_updates(self.written)

    @property
    def violations(self) -> list[str]:
        """What must not be."""
        found = [str(overlap) for overlap in self.overlaps]
        if self.lost_updates:
            found.append(f"{self.lost_updates} sections wrote over what another one wrote")
        return found


def contest(java: Build, masters: Sequence[AnyMaster], plan: Plan, folder: Path) -> Result:
    """Let them. The processes are started before the time begins, and ended with it."""
    urls = [master.url for master in masters]
    counter = folder / "counter"
    counter.write_bytes(b"0" * DIGITS)
    common: dict[str, Any] = {"folder": str(folder), "counter": str(counter)}
    common |= {"ms": int(plan.seconds * 1000), "hold_ms": plan.hold_ms}
    with ExitStack() as stack:
        jvms = [stack.enter_context(Jvm(java, folder)) for _ in range(plan.javas)]
        clients = [jvm.client(urls, watchdog_ms=plan.watchdog_ms, timeout_ms=500, retries=1) for jvm in jvms]
        pythons = []
        for i in range(plan.pythons):
            name = f"{NAME}, apart" if plan.apart else NAME
            task = Task(urls, name, f"python-{i}", threads=plan.python_threads, fair=plan.fair, **common)
            pythons.append(_start(stack, task))
        for python in pythons:
            assert python.stdout is not None
            assert python.stdout.readline() == "ready\n", "a Python worker did not start"
        if plan.kill:
            killer = threading.Timer(plan.seconds / 2, _kill, (masters[: plan.kill],))
            stack.callback(killer.cancel)
            killer.start()
        threads, kind = plan.java_threads, plan.kind
        done = [
            client.contend(name=NAME, label=f"java-{i}", threads=threads, kind=kind, **common)
            for i, client in enumerate(clients)
        ]
        for python in pythons:
            _tell(python)
        deadline = time.monotonic() + plan.seconds + END_S
        for future in done:
            future.result(max(0.0, deadline - time.monotonic()))
        for python in pythons:
            python.wait(max(1.0, deadline - time.monotonic()))
        ended_at = time.monotonic_ns()
        memory = [jvm.memory_mb for jvm in jvms]
    return Result(Records.read(folder), int(counter.read_bytes()), ended_at, memory)


def _start(stack: ExitStack, task: Task) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.interop.worker", str(task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TOP,
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")
    process.stdin.flush()


def _kill(masters: Sequence[AnyMaster]) -> None:
    for master in masters:
        master.kill()


def table(result: Result) -> str:
    """For people."""
    records = result.records
    lines = ["sections      " + ", ".join(f"{s} {n}" for s, n in sorted(records.by_side().items()))]
    lines.append(
        f"{'owner changes':30}{'number':>8}{'waiting':>8}{'median ms':>11}{'p99 ms':>9}{'max ms':>9}"
    )
    hand_offs, changes = records.hand_offs(), records.changes()
    for direction in sorted(changes):
        told = Delays.of(hand_offs.get(direction, []))
        lines.append(
            f"  {direction[0] + ' -> ' + direction[1]:28}{changes[direction]:8}{told.count:8}"
            f"{told.median * 1e3:11.2f}{told.p99 * 1e3:9.1f}{told.longest * 1e3:9.1f}"
        )
    lines.append(f"{'worker':30}{'sections':>8}{'longest wait s':>16}")
    counted = records.by_worker()
    for worker, waited in records.longest_waits(result.ended_at).items():
        unended = "" if worker in records.ended else "  (did not end)"
        lines.append(f"  {worker:28}{counted[worker]:8}{waited:16.3f}{unended}")
    lines.append(f"longest time without an owner: {records.longest_gap():.3f} s")
    faults = Counter(f"{side(worker)} {what}" for worker, _, what in records.faults)
    lines.append(f"errors of the lock: {', '.join(f'{n} {what}' for what, n in faults.items()) or 'none'}")
    lines.append(f"memory of a JVM: {', '.join(f'{mb} MB' for mb in result.memory_mb)}")
    lines.append(f"violations: {len(result.violations)}")
    lines += [f"  {violation}" for violation in result.violations[:10]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.contest", description=__doc__)
    parser.add_argument("--masters", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hold-ms", type=int, default=2)
    parser.add_argument("--javas", type=int, default=2)
    parser.add_argument("--pythons", type=int, default=4)
    parser.add_argument("--kind", choices=("plain", "fair", "fenced", "spin"), default="plain")
    parser.add_argument("--fair", action="store_true", help="rlock's fair mode")
    parser.add_argument("--kill", type=int, default=0, help="masters that are killed half-way")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    plan = Plan(
        seconds=asked.seconds,
        javas=asked.javas,
        pythons=asked.pythons,
        hold_ms=asked.hold_ms,
        kind=asked.kind,
        fair=asked.fair,
        kill=asked.kill,
    )
    with Masters(asked.masters, default_server()) as masters, tempfile.TemporaryDirectory() as folder:
        fleet: list[Master] = list(masters)
        java = build()
        shared = 'interop="redisson"' if shares_with_redisson() else "without interop"
        if not asked.json:
            print(f"Redisson {java.redisson}, rlock {shared}, {asked.masters} x {fleet[0].binary}, {plan}")
        result = contest(java, fleet, plan, Path(folder))
    if asked.json:
        hand_offs = {" -> ".join(k): vars(Delays.of(v)) for k, v in result.records.hand_offs().items()}
        told = {
            "sections": result.records.by_side(),
            "hand_offs": hand_offs,
            "longest_waits": result.records.longest_waits(result.ended_at),
            "violations": result.violations,
        }
        print(json.dumps(told))
    else:
        print(table(result))
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
