"""Java and Python processes contend for one lock for a minute: owners, hand-offs, overlaps.

``python -m tests.interop.contest --masters 3 --kill 1`` prints a table; the exit status is 1 for a violation.
``RLOCK_TEST_SERVER`` and ``RLOCK_TEST_REDISSON`` choose the server and the Redisson.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rlock.testing.contention.checker import Overlap, overlaps
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.figures import delays, hand_offs, owner_changes
from rlock.testing.contention.history import Attempt, History
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.processes import WorkerProcesses
from rlock.testing.contention.worker import Load
from rlock.testing.local.embedded import Master, Masters

from ..servers import AnyMaster, default_server
from .building import Build, build
from .jvm import Jvm

NAME = "contest"
#: After its time a worker waits for the lock once more, at worst for a lease of Redisson's.
END_S = 60.0


@dataclass(frozen=True)
class Plan:
    """The contenders, and the length of the contest."""

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
    """The history of a contest, and the number that its sections left in the counter."""

    history: History
    counted: int
    ended_at: int
    memory_mb: Sequence[int] = field(default_factory=tuple)

    @property
    def overlaps(self) -> list[Overlap]:
        return overlaps(self.history.holds)

    @property
    def lost_updates(self) -> int:
        return sum(hold.left_at is not None for hold in self.history.holds) - self.counted

    @property
    def violations(self) -> list[str]:
        found = [
            f"{o.before.process} and {o.after.process} held the lock together for {o.ns / 1e6:.3f} ms"
            for o in self.overlaps
        ]
        if self.lost_updates:
            found.append(f"{self.lost_updates} updates were lost")
        return found

    @property
    def sections(self) -> dict[str, int]:
        """Sections of each side."""
        return dict(sorted(Tally(side(hold) for hold in self.history.holds).items()))

    @property
    def by_contender(self) -> dict[tuple[str, str], int]:
        """Sections of each thread; also of those that had none."""
        counted = Tally(hold.contender for hold in self.history.holds)
        return {one: counted[one] for one in sorted({a.contender for a in self.history.attempts})}

    @property
    def hand_offs(self) -> dict[str, list[float]]:
        """For each direction the seconds from a release to the next owner, which was waiting."""
        found: dict[str, list[float]] = defaultdict(list)
        for pair in hand_offs(self.history.holds):
            found[direction(*pair)] += delays([pair])
        return found

    @property
    def longest_waits(self) -> dict[tuple[str, str], float]:
        """For each thread its longest wait in seconds; a wait without an end counts up to the end."""
        found = dict.fromkeys(self.by_contender, 0.0)
        for attempt in self.history.attempts:
            end = attempt.grant.at if attempt.held else attempt.done_at or self.ended_at
            found[attempt.contender] = max(found[attempt.contender], (end - attempt.asked_at) / SECOND)
        return found


def side(attempt: Attempt) -> str:
    """The library of an attempt."""
    return "java" if attempt.process.startswith("java") else "python"


def direction(before: Attempt, after: Attempt) -> str:
    """The libraries of two owners."""
    return f"{side(before)} -> {side(after)}"


def contest(java: Build, masters: Sequence[AnyMaster], plan: Plan, folder: Path) -> Result:
    """Let the processes contend. They are started before the time begins."""
    urls = [master.url for master in masters]
    counter = Counter(folder / "counter")
    seconds = (plan.hold_ms / 1000, plan.hold_ms / 1000)
    with ExitStack() as stack:
        jvms = [stack.enter_context(Jvm(java, folder)) for _ in range(plan.javas)]
        clients = [jvm.client(urls, watchdog_ms=plan.watchdog_ms, timeout_ms=500, retries=1) for jvm in jvms]
        environment = {**os.environ, "RLOCK_MASTERS": ",".join(urls), "RLOCK_INTEROP": "redisson"}
        pythons = WorkerProcesses(plan.pythons, folder, environment)
        stack.callback(pythons.end)
        pythons.wait(END_S)
        if plan.kill:
            killer = threading.Timer(plan.seconds / 2, _kill, (masters[: plan.kill],))
            stack.callback(killer.cancel)
            killer.start()
        done = [
            client.contend(
                name=NAME,
                label=f"java-{i}",
                threads=plan.java_threads,
                kind=plan.kind,
                folder=str(folder),
                counter=str(folder / "counter"),
                ms=int(plan.seconds * 1000),
                hold_ms=plan.hold_ms,
                # Java has CLOCK_MONOTONIC, the journals have CLOCK_BOOTTIME.
                clock_ns=now_ns() - time.monotonic_ns(),
            )
            for i, client in enumerate(clients)
        ]
        load = Load(
            f"{NAME}, apart" if plan.apart else NAME,
            hold=seconds,
            threads=plan.python_threads,
            fair=plan.fair,
            counter=str(folder / "counter"),
            end_at=now_ns() + int(plan.seconds * SECOND),
        )
        for python in pythons.workers:
            python.order(load)
        deadline = time.monotonic() + plan.seconds + END_S
        for future in done:
            future.result(max(0.0, deadline - time.monotonic()))
        pythons.wait(max(1.0, deadline - time.monotonic()))
        pythons.end()
        ended_at = now_ns()
        memory = [jvm.memory_mb for jvm in jvms]
    history = pythons.history.take(folder)
    history.horizon = ended_at
    for attempt in history.attempts:
        attempt.lock = NAME  # the control has two locks, and they are judged as one
    return Result(history, counter.count().value, ended_at, memory)


def _kill(masters: Sequence[AnyMaster]) -> None:
    for master in masters:
        master.kill()


def table(result: Result) -> str:
    """The result for people."""
    history = result.history
    lines = ["sections      " + ", ".join(f"{s} {n}" for s, n in result.sections.items())]
    lines.append(
        f"{'owner changes':30}{'number':>8}{'waiting':>8}{'median ms':>11}{'p99 ms':>9}{'max ms':>9}"
    )
    changes = Tally(direction(*pair) for pair in owner_changes(history.holds))
    for name in sorted(changes):
        times = sorted(result.hand_offs.get(name, [])) or [0.0]
        p99 = times[int((len(times) - 1) * 0.99)]
        lines.append(
            f"  {name:28}{changes[name]:8}{len(result.hand_offs.get(name, [])):8}"
            f"{statistics.median(times) * 1e3:11.2f}{p99 * 1e3:9.1f}{times[-1] * 1e3:9.1f}"
        )
    lines.append(f"{'contender':46}{'sections':>8}{'longest wait s':>16}")
    for contender, waited in result.longest_waits.items():
        unended = "" if contender[0] in history.ended else "  (did not end)"
        lines.append(f"  {' '.join(contender):44}{result.by_contender[contender]:8}{waited:16.3f}{unended}")
    gaps = [after.grant.at - before.valid_to for before, after in pairwise(history.holds)]
    lines.append(f"longest time without an owner: {max([0, *gaps]) / SECOND:.3f} s")
    errors = Tally(text for _, text in history.errors)
    lines.append(f"errors of the lock: {', '.join(f'{n} {what}' for what, n in errors.items()) or 'none'}")
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
        if not asked.json:
            print(f"Redisson {java.redisson}, {asked.masters} x {fleet[0].binary}, {plan}")
        result = contest(java, fleet, plan, Path(folder))
    if asked.json:
        told = {
            "sections": result.sections,
            "hand_off_median_s": {name: statistics.median(times) for name, times in result.hand_offs.items()},
            "longest_waits": {" ".join(one): waited for one, waited in result.longest_waits.items()},
            "violations": result.violations,
        }
        print(json.dumps(told))
    else:
        print(table(result))
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
