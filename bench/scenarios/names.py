"""As many lock names as one likes, each used once: what do they cost, and what is left of them?

Each contestant has masters and one process of its own. First it holds some locks at the same time, and
releases them. Then, in small turns of one after another, it acquires and releases each of 100,000 names once.

- held_bytes: what a master's memory grew by for each lock that was held.
- pairs_per_s: of names that were never used before.
- names: how many there were in the time, and names_failed. On three masters a quarter of them at the most.
- left_keys: for each name on each master, when the last one was released. Fencing tokens stay for an hour.
- left_bytes: what a master's memory grew by for each name.
- left_for_ever: keys on all masters that never go by themselves. It must be 0.
- client_bytes: what the process grew by for each name.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from bench.harness.contestant import Failed
from bench.harness.crew import GRACE_S, Crew, reason
from bench.harness.field import Entry
from bench.harness.lineup import Clock
from bench.harness.masters import Masters
from bench.harness.results import Case, Row
from bench.harness.watch import Counters

NAME = "names"
TITLE = "100,000 lock names"
QUESTION = "What does a lock name cost on a master while it is held, and what is left of it afterwards?"

NAMES, QUICK_NAMES = 100_000, 1_000
HELD, QUICK_HELD = 5_000, 200
AHEAD = 100
#: A turn. Three masters keep what one keeps, each of them; fewer names tell it as well.
TURN = {1: 1_000, 3: 250}
#: Who, on how many masters.
WHO = (("rlock", 1), ("redis-py", 1), ("rlock", 3))


class Names:
    """One contestant on masters of its own."""

    def __init__(self, entry: Entry, masters: int, stack: contextlib.ExitStack) -> None:
        fleet = stack.enter_context(Masters(masters))
        self._masters = masters
        self._counters = stack.enter_context(Counters(fleet.urls))
        self._crew = stack.enter_context(Crew(entry, fleet.urls, 1))
        self._crew.warm_up()
        self._done, self._asked, self._seconds, self._error = 0, 0, 0.0, ""
        self._figures: dict[str, float] = {}

    def _memory(self) -> float:
        """Of one master, in bytes."""
        return self._counters.sum("memory", "used_memory") / self._masters

    def hold(self, locks: int) -> None:
        """Hold so many at the same time, and release them."""
        before = self._memory()
        for reply in self._each("acquire", locks, wait_ms=1000):
            if not reply["acquired"]:
                raise Failed("TimeoutError: not acquired within 1 s, and nobody had it")
        self._figures["held_bytes"] = (self._memory() - before) / locks
        list(self._each("release", locks))

    def _each(self, verb: str, locks: int, **request: Any) -> Iterator[dict[str, Any]]:
        """Ask the same for all locks, some ahead of the answers; a pipe takes no more."""
        for first in range(0, locks, AHEAD):
            some = range(first, min(first + AHEAD, locks))
            for i in some:
                self._crew[0].send(verb, lock=f"held-{i}", **request)
            for _ in some:
                yield self._crew[0].answer(GRACE_S)

    def begin(self) -> None:
        (self._keys, self._for_ever), self._before = self._counters.keys(), self._memory()
        self._resident = self._crew[0].ask("usage")["rss_bytes"]

    def turn(self, names: int) -> None:
        """Use so many names more."""
        began = time.monotonic()
        told = self._crew[0].ask("names", prefix="name-", first=self._asked, count=names)
        self._seconds += time.monotonic() - began
        self._asked += names
        self._done += told["done"]
        self._error = self._error or next(iter(told["errors"]), "")
        if not told["done"]:
            raise Failed(self._error)

    @property
    def asked(self) -> int:
        return self._asked

    @property
    def error(self) -> str | None:
        failed = self._asked - self._done
        return f"{self._error} ({failed} times)" if failed else None

    def end(self) -> dict[str, float]:
        """The figures."""
        keys, for_ever = self._counters.keys()
        resident = self._crew[0].ask("usage")["rss_bytes"]
        return self._figures | {
            "names": self._done,
            "names_failed": self._asked - self._done,
            "pairs_per_s": self._done / self._seconds,
            "left_keys": (keys - self._keys) / self._masters / self._done,
            "left_bytes": (self._memory() - self._before) / self._done,
            "left_for_ever": for_ever - self._for_ever,
            "client_bytes": (resident - self._resident) / self._done,
        }


def run(entries: Sequence[Entry], budget_s: float, quick: bool) -> Iterator[Case]:
    clock = Clock(budget_s)
    by_key = {entry.key: entry for entry in entries}
    who = [(key, masters) for key, masters in WHO if key in by_key]
    wanted, held = (QUICK_NAMES, QUICK_HELD) if quick else (NAMES, HELD)
    cases = {masters: Case({"masters": masters, "held": held, "names": wanted}) for _, masters in who}
    rows = {(key, masters): cases[masters].rows.setdefault(key, Row()) for key, masters in who}
    with contextlib.ExitStack() as stack:
        users: dict[tuple[str, int], Names] = {}
        for key, masters in who:
            try:
                user = Names(by_key[key], masters, stack)
                user.hold(held)
                user.begin()
                users[key, masters] = user
            except Exception as error:
                rows[key, masters].error = reason(error)
        for turn in count():
            going_on = [at for at in users if users[at].asked < wanted * TURN[at[1]] / TURN[1]]
            if not going_on or (turn and not clock.left()):
                break
            # Each is the first one in turn.
            for at in going_on[turn % len(going_on) :] + going_on[: turn % len(going_on)]:
                try:
                    users[at].turn(min(TURN[at[1]], wanted - users[at].asked))
                except Exception as error:
                    rows[at].error = reason(error)
                    del users[at]
        for at, user in users.items():
            try:
                rows[at].figures, rows[at].error = user.end(), user.error
            except Exception as error:
                rows[at].error = reason(error)
    for case in cases.values():
        case.compare("pairs_per_s", ["redis-py"])
        yield case
