"""One holds, one waits: how long after the release has the other one got it?

Two processes of each contestant, which take the two parts in turn. The second one has waited for 50 to 150
ms, drawn anew each time, when the first releases. Told is the time from before the release to the return of
the acquire: median, 99th percentile (with few samples: the longest), lowest and highest median of the rounds,
and how many there were. In every round each contestant has its turn, those that answer fast a longer one.

The floor is one BLPOP in one process, woken by the RPUSH of another one, on the first master.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from bench.harness.contestant import ROOT, Contestant, Failed
from bench.harness.crew import GRACE_S, PATIENCE_S, all_of, chosen, reason
from bench.harness.field import Entry
from bench.harness.figures import durations
from bench.harness.lineup import TTL_MS, Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row

NAME = "wake_up"
TITLE = "Wake-up of one waiter"
QUESTION = "How long after a release does the one that waits have the lock?"

FLOOR = "floor-blpop"
WAITS_S = 0.05, 0.15
#: How many samples ours and the floor have in a round: rare slow ones are to be seen, too.
SAMPLES, SAMPLES_OF_PEERS = 6, 1
ROUNDS = 8


class Starts(Protocol):
    """What starts the processes of a contestant: an `Entry`, or the floor."""

    @property
    def key(self) -> str: ...

    def start(self) -> Contestant: ...

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, object]: ...


class Floor:
    key = FLOOR

    def start(self) -> Contestant:
        return Contestant([sys.executable, "-m", "bench.harness.handover"], {"PYTHONPATH": str(ROOT)})

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, object]:
        return {"masters": list(masters)}


class Pair:
    """Holder and waiter."""

    def __init__(self, entry: Starts, masters: Sequence[str]) -> None:
        self._name = f"wake-{entry.key}"
        self._request = {"lock": self._name, "wait_ms": round(PATIENCE_S * 1e3)}
        self._floor = entry.key == FLOOR
        self._both: list[Contestant] = []
        try:
            self._both += [entry.start(), entry.start()]
            all_of(self._both, "open", 60.0, **entry.opening(masters, TTL_MS))
            self.turn([0.05])  # connections are made, scripts loaded
        except BaseException:
            self.close()
            raise

    def turn(self, waits_s: Sequence[float]) -> list[int]:
        """The times of as many wake-ups, in nanoseconds."""
        took = []
        holder, waiter = self._both
        if not self._floor:
            self._acquired(holder.ask("acquire", PATIENCE_S + GRACE_S, **self._request))
        for wait_s in waits_s:
            waiter.send("acquire", **self._request)
            time.sleep(wait_s)
            released = holder.ask("release", GRACE_S, lock=self._name)
            woken = self._acquired(waiter.answer(PATIENCE_S + GRACE_S))
            if woken["asked"] < released["began"]:  # else it was so late that it never waited
                took.append(woken["entered"] - released["began"])
            holder, waiter = waiter, holder
        if not self._floor:
            holder.ask("release", GRACE_S, lock=self._name)
        return took

    @staticmethod
    def _acquired(reply: dict[str, int]) -> dict[str, int]:
        if not reply["acquired"]:
            raise Failed(f"TimeoutError: not acquired within {PATIENCE_S:g} s")
        return reply

    def close(self) -> None:
        for contestant in self._both:
            contestant.close()


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    for masters, share in ((1, 0.37), (5, 1.0)):
        with Masters(masters) as fleet, contextlib.ExitStack() as stack:
            taking_part: list[Starts] = [Floor(), *chosen(entries, masters, quick)]
            case = measure(taking_part, fleet.urls, clock.part(share), dice, quick, stack)
        case.case["masters"] = masters
        case.compare("p50_us", [FLOOR])
        yield case


def measure(
    entries: Sequence[Starts],
    urls: Sequence[str],
    clock: Clock,
    dice: random.Random,
    quick: bool,
    stack: contextlib.ExitStack,
) -> Case:
    """Rounds until each has had as many as planned, or the clock says so; at least one."""
    rows = {entry.key: Row() for entry in entries}
    pairs: dict[str, Pair] = {}
    for entry in entries:
        try:
            pairs[entry.key] = Pair(entry, urls)
            stack.callback(pairs[entry.key].close)
        except Exception as error:
            rows[entry.key].error = reason(error)
    often = {entry.key for entry in entries if getattr(entry, "family", "floor") != "peer"}
    took: dict[str, list[list[int]]] = {key: [] for key in pairs}
    for round_ in range(1 if quick else ROUNDS):
        order = sorted(pairs)
        dice.shuffle(order)
        for key in order:
            if round_ and not clock.left():
                break
            samples = 2 if quick else SAMPLES if key in often else SAMPLES_OF_PEERS
            try:
                took[key].append(pairs[key].turn([dice.uniform(*WAITS_S) for _ in range(samples)]))
            except Exception as error:
                rows[key].error = reason(error)
                pairs.pop(key).close()
    for key, rounds in took.items():
        rows[key].figures = durations(rounds)
        if not rows[key].figures and not rows[key].error:
            rows[key].error = "Failed: it never waited before the release: the machine is too busy"
    return Case({"processes": 2}, rows)
