"""Where the time of one uncontended pair goes: its steps, the processor time of both sides, and the stacks.

Contestants take turns: a batch of pairs whose times are taken, then a batch that is interrupted at random
instants to see where it is. What the samples give are shares; they are told of the median of the batches that
nothing interrupted.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis

from bench.harness.contestant import Contestant, Failed, Unsupported
from bench.harness.field import Entry
from bench.harness.figures import durations
from bench.harness.masters import Masters
from bench.harness.results import Case, Row

NAME = "steps"
TITLE = "Where the time of a pair goes"
QUESTION = "Of one acquire and release on five masters: how long is each step, and who computes for how long?"

MASTERS = 5
TTL_MS = 10_000
#: In the order in which a round has them; `sampling.step` says which line belongs to which.
STEPS = ("build", "send", "wait", "read", "count", "rest")
TIMED, SAMPLED = 40, 120
ROOT = Path(__file__).parents[2]
WORKER = ROOT / "bench/harness/sampling.py"
#: What can be looked at from within: blocking, and in this environment.
KEYS = ("rlock", "floor-all", "floor-majority")


@dataclass
class Seen:
    """What is known of one contestant so far."""

    worker: Contestant
    rounds: list[list[float]] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    stacks: Counter[str] = field(default_factory=Counter)
    user_ns: int = 0
    system_ns: int = 0
    masters_s: float = 0.0

    def row(self) -> Row:
        """Its figures; a step is its share of the samples, of the median."""
        figures = durations(self.rounds)
        pairs = figures.get("count", 0.0)
        samples = sum(self.steps.values())
        if not pairs or not samples:
            return Row(error="Failed: too little time to see anything")
        for step in STEPS:
            figures[f"{step}_us"] = figures["p50_us"] * self.steps[step] / samples
        figures["user_cpu_us"] = self.user_ns / 1e3 / pairs
        figures["system_cpu_us"] = self.system_ns / 1e3 / pairs
        figures["masters_cpu_us"] = self.masters_s * 1e6 / pairs
        figures["samples"] = float(samples)
        return Row(figures)


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    """One case with the steps, one with the stacks."""
    chosen = [entry for entry in entries if entry.key in KEYS]
    steps = Case({"masters": MASTERS})
    stacks = Case({"masters": MASTERS, "stacks": "wall"})
    if not chosen:
        return
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(Masters(MASTERS))
        admins = [stack.enter_context(contextlib.closing(redis.Redis.from_url(url))) for url in fleet.urls]
        seen: dict[str, Seen] = {}
        for entry in chosen:
            command = [sys.executable, str(WORKER), entry.adapter]
            worker = stack.enter_context(Contestant(command, {"PYTHONPATH": str(ROOT)}))
            try:
                worker.ask("open", masters=fleet.urls, ttl_ms=TTL_MS, poll_ms=None)
                worker.ask("pairs", lock=f"steps-{entry.key}", count=60)
            except (Failed, Unsupported) as error:
                steps.rows[entry.key] = Row(error=f"{type(error).__name__}: {error}")
                continue
            seen[entry.key] = Seen(worker)
        order, keys = random.Random(8), list(seen)
        until = max(began + budget_s * 0.9, time.monotonic() + 1.0)  # the rest is for ending
        while keys and time.monotonic() < until:
            order.shuffle(keys)
            for key in list(keys):
                try:
                    look(seen[key], f"steps-{key}", admins)
                except (Failed, Unsupported) as error:
                    steps.rows[key] = Row(error=f"{type(error).__name__}: {error}")
                    keys.remove(key)
        for key, found in seen.items():
            if key in keys:
                steps.rows[key] = found.row()
                stacks.rows[key] = Row({name: float(count) for name, count in found.stacks.items()})
    yield steps
    yield stacks


def look(seen: Seen, lock: str, admins: Sequence[redis.Redis]) -> None:
    """One batch whose times are taken, one that is looked into."""
    used, computed = seen.worker.ask("usage"), masters_cpu_s(admins)
    timed = seen.worker.ask("pairs", lock=lock, count=TIMED)
    after = seen.worker.ask("usage")
    seen.masters_s += masters_cpu_s(admins) - computed
    seen.user_ns += after["user_ns"] - used["user_ns"]
    seen.system_ns += after["system_ns"] - used["system_ns"]
    seen.rounds.append(timed["ns"])
    reply = seen.worker.ask("sampled", lock=lock, count=SAMPLED)
    for errors in (timed["errors"], reply["errors"]):
        if errors:
            raise Failed(errors[0])
    for names, step, count in reply["stacks"]:
        seen.steps[step] += count
        seen.stacks[";".join(names)] += count


def masters_cpu_s(admins: Sequence[redis.Redis]) -> float:
    """The processor time that all masters have used so far."""
    total = 0.0
    for admin in admins:
        told = admin.info("cpu")
        total += told["used_cpu_user"] + told["used_cpu_sys"]
    return total
