"""One holds, one waits: how long after the release has the other one got it?

Two processes of each contestant, which take the two parts in turn. The second one has waited for 50 to 150
ms at least, drawn anew each time, when the first releases. Told is the time from before the release to the
return of the acquire: median, 99th percentile (with few samples: the longest), lowest and highest median of
the rounds, and how many there were.

No two wake-ups overlap, but several pairs wait at the same time, where waiting takes no processor time: those
that are told of a release, and apart from them those that look for it at times. One that looks every few
milliseconds has the machine for itself. Each round has all of them, in an order that is drawn anew.

There are two floors: a bare BLPOP in one process, woken by the RPUSH of another one, on the first master; and
as many hops as a hand-off by message has, on all masters (``harness/handover.py``).
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.harness.contestant import ROOT, Contestant, Failed
from bench.harness.crew import GRACE_S, OPEN_TIMEOUT_S, answers, chosen, reason
from bench.harness.field import Entry
from bench.harness.figures import durations
from bench.harness.lineup import TTL_MS, Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row

NAME = "wake_up"
TITLE = "Wake-up of one waiter"
QUESTION = "How long after a release does the one that waits have the lock?"

#: What the worker of each is told, and its key.
FLOORS = {"floor-blpop": "blpop", "floor-hand-off": "claim"}
WAITS_S = 0.05, 0.15
#: Between two wake-ups: what the last one's pair does to wait again is no part of the next.
SETTLE_S = 0.015
#: Half of a lease: who waits behind one that gets nothing has its lock still.
PATIENCE_S = TTL_MS / 2000
ROUNDS = 4
#: How the time of a round is shared: for each that is told, that looks, that looks every few milliseconds.
#: The first ones have several samples in it, each of the others takes what it waits for.
SHARES = 2, 3, 2


class Starts(Protocol):
    """What starts the processes of a contestant: an `Entry`, or a floor."""

    @property
    def key(self) -> str: ...

    def start(self) -> Contestant: ...

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, object]: ...


@dataclass(frozen=True)
class Floor:
    key: str

    def start(self) -> Contestant:
        command = [sys.executable, "-m", "bench.harness.handover", FLOORS[self.key]]
        return Contestant(command, {"PYTHONPATH": str(ROOT)})

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, object]:
        return {"masters": list(masters)}


class Pair:
    """Holder and waiter."""

    def __init__(self, entry: Starts) -> None:
        self.key = entry.key
        #: When the one that waits has waited for long enough.
        self.due = 0.0
        self._name = f"wake-{entry.key}"
        self._request = {"lock": self._name, "wait_ms": round(PATIENCE_S * 1e3)}
        self._floor = entry.key in FLOORS
        self._both: list[Contestant] = []
        try:
            self._both += [entry.start()]
            self._both += [entry.start()]
        except BaseException:
            self.close()
            raise

    def open(self, **opening: object) -> None:
        """Connect; `opened` waits for that."""
        for contestant in self._both:
            contestant.send("open", **opening)

    def opened(self) -> None:
        answers(self._both, OPEN_TIMEOUT_S)

    def hold(self) -> None:
        """The first one has the lock."""
        if not self._floor:
            self._acquired(self._both[0].ask("acquire", PATIENCE_S + GRACE_S, **self._request))

    def wait(self, seconds: float) -> None:
        """The second one waits for it, for so long at least."""
        self._both[1].send("acquire", **self._request)
        self.due = time.monotonic() + seconds

    def wake(self) -> int | None:
        """The first one releases: nanoseconds until the second one has it. None: it never waited."""
        holder, waiter = self._both
        holder.send("release", lock=self._name)
        # The waiter's answer first: reading the other one's would take a core from it.
        woken = self._acquired(waiter.answer(PATIENCE_S + 1.0))
        released = holder.answer(GRACE_S)
        self._both = [waiter, holder]
        return woken["entered"] - released["began"] if woken["asked"] < released["began"] else None

    def let_go(self) -> None:
        """Who has the lock releases it."""
        if not self._floor:
            self._both[0].ask("release", GRACE_S, lock=self._name)

    @staticmethod
    def _acquired(reply: dict[str, int]) -> dict[str, int]:
        if not reply["acquired"]:
            raise Failed(f"TimeoutError: not acquired within {PATIENCE_S:g} s")
        return reply

    def close(self) -> None:
        for contestant in self._both:
            contestant.close()


@dataclass
class Crowd:
    """The pairs that take part, and what came out. One that fails has its error in its row, and is out."""

    rows: dict[str, Row] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    #: Nanoseconds, a list for each round.
    took: dict[str, list[list[int]]] = field(default_factory=dict)

    def enter(self, entries: Sequence[Starts], urls: Sequence[str]) -> None:
        """All of them, side by side: virtual machines warm up while the others connect."""
        for entry in entries:
            self.rows[entry.key] = Row()
            self.took[entry.key] = []
            with self.unless_it_fails(entry.key):
                self.pairs[entry.key] = Pair(entry)
                self.pairs[entry.key].open(**entry.opening(urls, TTL_MS))
        for key in list(self.pairs):
            with self.unless_it_fails(key):
                self.pairs[key].opened()
        for key in list(self.pairs):
            self.round([key], lambda: 0.05, Clock(0.0))  # connections are made, scripts loaded
        for rounds in self.took.values():
            rounds.clear()

    @contextlib.contextmanager
    def unless_it_fails(self, key: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.rows[key].error = reason(error)
            if pair := self.pairs.pop(key, None):
                pair.close()

    def round(self, keys: Collection[str], wait_s: Callable[[], float], until: Clock) -> None:
        """These wait, and are woken one after another; each once at least, and again while there is time."""
        for key in keys:
            if key in self.pairs:
                self.took[key].append([])
                with self.unless_it_fails(key):
                    self.pairs[key].hold()
                    self.pairs[key].wait(wait_s())
        waiting = {key for key in keys if key in self.pairs}
        while waiting:
            key = min(waiting, key=lambda key: self.pairs[key].due)
            pair = self.pairs[key]
            time.sleep(max(SETTLE_S, pair.due - time.monotonic()))
            waiting.remove(key)
            with self.unless_it_fails(key):
                if (took := pair.wake()) is not None:
                    self.took[key][-1].append(took)
                if until.left():
                    pair.wait(wait_s())
                    waiting.add(key)
                else:
                    pair.let_go()

    def told(self) -> dict[str, Row]:
        for key, rounds in self.took.items():
            self.rows[key].figures = durations(rounds)
            if not self.rows[key].figures and not self.rows[key].error:
                self.rows[key].error = "Failed: it never waited before the release: the machine is too busy"
        return self.rows

    def close(self) -> None:
        for pair in self.pairs.values():
            pair.close()
        self.pairs.clear()


@dataclass(frozen=True)
class Group:
    """Those that wait at the same time."""

    keys: Sequence[str]
    weight: int

    @property
    def share(self) -> int:
        return self.weight * len(self.keys)


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    dice = random.Random(NAME)
    for masters, share in ((1, 0.4), (5, 1.0)):
        taking_part = chosen(entries, masters, quick)
        groups = apart(taking_part)
        with Masters(masters) as fleet, contextlib.closing(Crowd()) as crowd:
            part = clock.part(share)
            crowd.enter([*map(Floor, FLOORS), *taking_part], fleet.urls)
            measure(crowd, groups, part, dice, 1 if quick else ROUNDS)
            case = Case({"processes": 2, "masters": masters}, crowd.told())
        case.compare("p50_us", FLOORS)
        yield case


def apart(entries: Sequence[Entry]) -> list[Group]:
    """Who waits at the same time, and the share of a round for them."""
    told, looking, often = SHARES
    others = [entry for entry in entries if not entry.tuned]
    groups = [
        Group([*FLOORS, *(entry.key for entry in others if not entry.polls)], told),
        Group([entry.key for entry in others if entry.polls], looking),
        *(Group([entry.key], often) for entry in entries if entry.tuned),
    ]
    return [group for group in groups if group.keys]


def measure(crowd: Crowd, groups: Sequence[Group], clock: Clock, dice: random.Random, rounds: int) -> None:
    """So many rounds; the clock says how long each takes."""
    for round_ in range(rounds):
        part = clock.part(1 / (rounds - round_))
        left = sum(group.share for group in groups)
        for group in dice.sample(groups, len(groups)):
            until = part.part(group.share / left)
            left -= group.share
            crowd.round(group.keys, lambda: dice.uniform(*WAITS_S), until)
