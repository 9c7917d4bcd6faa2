"""The plan of a soak, and its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlock.testing.contention.checker import Eviction, Finding
from rlock.testing.contention.counter import Count
from rlock.testing.contention.history import History
from rlock.testing.local.embedded import ServerBinary

from .faults import FAULTS

PROCESSES = ("murder", "freeze", "interrupt", "evict")
#: The faults that ``all`` means. The other one is for `--counter`.
ALL = tuple(name for name in FAULTS if name != "freeze-half")
#: Faults of a single master, by which the others lose nothing.
ONE_MASTER = ("kill", "disk")
#: From one calm to the next, see `Plan.calm_s`.
CYCLE_S = 90.0
NAMES = ("a", "b", "{c}", "d:4")
#: Beyond the restart guard: so long may a waiter wait when all is well again. Queues of all threads, with
#: long holds among them, on a machine that does other things, too.
PROGRESS_S = 30.0


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    masters: int = 3
    ttl: float = 2.0
    faults: tuple[str, ...] = ALL
    processes: int = 6
    sabotage: str = ""
    #: The users of the locks: ``fair``, ``default``, or ``mixed``; ``unfair``: default, and judged as fair.
    order: str = "mixed"
    #: The clocks of the clients run by so much too slow, too fast, or right. Rule 3.1 allows 0.01.
    rate: float = 0.009
    #: In each minute and a half masters and network are left alone for so many seconds.
    calm_s: float = 0.0
    #: The share of attempts that ask for a reader; a fifth of the writers becomes one then.
    readers: float = 0.0
    names: tuple[str, ...] = NAMES
    holds: str = "mixed"
    #: Stop at the first finding. Else a run goes on: one violation must not hide another.
    until_red: bool = False
    keep: Path | None = None
    #: Write the history of the run to this file, in EDN.
    edn: Path | None = None
    #: Which server; None: the best that is found.
    server: ServerBinary | None = None


@dataclass
class Result:
    plan: Plan
    server: str = ""
    findings: list[Finding] = field(default_factory=list)
    red_after_s: float | None = None
    faults: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    kept: Path | None = None

    @property
    def red(self) -> bool:
        return bool(self.findings)

    @property
    def failed(self) -> list[str]:
        return list(dict.fromkeys(finding.check for finding in self.findings))


def figures(history: History, evictions: Iterable[Eviction] = ()) -> dict[str, int]:
    holds, evicted = history.holds, {owner for eviction in evictions for owner in eviction.owners}
    # Lost while validity was left: no overlap, but a promise less.
    early = sum(
        any(not b.valid and b.by < a.valid_until for a, b in pairwise(hold.looks) if a.valid)
        for hold in holds
        if hold.grant.owner not in evicted
    )
    lost = sum(hold.lost for hold in holds)
    attempts = len(history.attempts)
    return {"attempts": attempts, "holds": len(holds), "lost_holds": lost, "lost_before_their_time": early}
