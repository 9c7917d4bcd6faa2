"""The field of the nemesis: masters, processes, and the notes on the faults that were done to them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rlock.rules import scripts
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns
from rlock.testing.contention.order import Harm

from .crew import Crew
from .fleet import Fleet


class Failover(NamedTuple):
    """A replica that was promoted. Instants are nanoseconds."""

    kind: str
    promoted_at: int
    whole_at: int  # since when the new primary has all replicas


@dataclass
class Field:
    """The things that faults act on, and the notes on faults."""

    fleet: Fleet
    crew: Crew
    names: Sequence[str]
    #: The scripts of the workers by their names. With a broken rule a script may have another hash.
    commands: Mapping[str, scripts.Script]
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)
    failovers: list[Failover] = field(default_factory=list)

    def note(self, fault: str, told: object) -> None:
        self.done[fault] += 1
        self.log.append(f"{stamp(now_ns())} {fault} {told}")

    def rest(self, seconds: float) -> None:
        self.over.wait(seconds)


#: A fault does its harm and mends it. Two may run at once, but never on one master.
Fault = Callable[[Field, Random], None]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    def register(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return register


def some(on: Field, dice: Random) -> list[int]:
    """A few masters, or all."""
    count = dice.choice((1, 1, 2, len(on.fleet)))
    return dice.sample(range(len(on.fleet)), count)
