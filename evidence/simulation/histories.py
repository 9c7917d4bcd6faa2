"""Histories of the simulation in EDN, for Porcupine: ``python -m evidence.simulation.histories h.edn``.

The schedules of ``--seeds`` are one history, in which each schedule has locks of its own. ``--controls``
plays each broken rule of evidence/sabotage.py until the referee sees it, and asks Porcupine about that
schedule, and about the same one with the rule in place.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rlock.rules.holds import Hold
from rlock.testing.contention import edn
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import Attempt, Grant, History, Look
from rlock.testing.contention.journal import SECOND

from ..porcupine import MissingError, Porcupine
from ..sabotage import SABOTAGES, sabotage
from .client import Client
from .masters import broken
from .referee import Referee, valid_for
from .schedules import Schedule
from .stage import Stage
from .test_controls import KNOWN, LIMIT
from .test_directed import SCENARIOS
from .world import World

#: Broken rules that no history of acquires and releases can show.
UNSEEN = {
    "young says free": "`locked()` is wrong, and no operation of the history",
    "WAIT for nothing": "`locked()` is wrong, and no operation of the history",
    "any answer confirms": "the lease is over in the history already when it comes back",
    "increment": "a released lock stays taken: nobody gets it too early, only too late",
    "wake-up by messages only": "a waiter sleeps on: nobody gets the lock too early, only too late",
}


class Historian(Referee):
    """A referee that writes the history, on the clock of the world."""

    def __init__(self, world: World, prefix: str = "") -> None:
        super().__init__(world)
        self._prefix = prefix
        self._owners: dict[str, tuple[Client, Hold, Attempt]] = {}
        self._evicted_at: dict[str, int] = {}
        self.history = History()

    def enter(self, client: Client, hold: Hold) -> None:
        for _, held, _ in list(self._owners.values()):
            if held.name == hold.name:
                self._look(held)
        now = self._now()
        # The instant before the first byte of the winning round was sent.
        ago = client.clock() - hold.acquired_at
        sent_at = max(0, now - int(client.lasts(ago) * SECOND))
        attempt = Attempt(
            self._prefix + client.label, len(self._owners), "", self._prefix + hold.name, sent_at
        )
        attempt.grant = Grant(now, sent_at, hold.token, hold.owner)
        self._owners[hold.owner] = client, hold, attempt
        self.history.attempts.append(attempt)
        self._look(hold)
        super().enter(client, hold)

    def leave(self, hold: Hold) -> None:
        attempt = self._owners[hold.owner][2]
        if attempt.left_at is None:
            self._look(hold)
            # A process has one operation at a time, and virtual time may stand still in a hold.
            attempt.left_at = max(self._now(), attempt.grant.at + 1)
        super().leave(hold)

    def confirm(self, hold: Hold) -> None:
        attempt = self._owners[hold.owner][2]
        attempt.done_at, attempt.outcome = max(self._now(), (attempt.left_at or 0) + 1), "got"
        super().confirm(hold)

    def evict(self, owner: str) -> None:
        self._evicted_at.setdefault(owner, self._now())
        super().evict(owner)

    def evictions(self) -> list[Eviction]:
        return [
            Eviction(at, self._owners[owner][2].lock, (owner,))
            for owner, at in self._evicted_at.items()
            if owner in self._owners
        ]

    def _now(self) -> int:
        return int(self._world.events.now * SECOND)

    def _look(self, hold: Hold) -> None:
        client, _, attempt = self._owners[hold.owner]
        if attempt.left_at is None:
            left, now = valid_for(client, hold), self._now()
            until = now + int(client.lasts(left) * SECOND) if left > 0 else 0
            attempt.looks.append(Look(now, until))


def scheduled(seed: int) -> Historian:
    schedule = Schedule(seed)
    historian = Historian(schedule.world, f"{seed}/")
    schedule.world.referee = historian
    schedule.play()
    return historian


def directed(rule: str) -> Historian:
    scenario = SCENARIOS[rule]
    stage = Stage(replicas=scenario.replicas)
    historian = Historian(stage.world)
    stage.world.referee = historian
    scenario.play(stage)
    return historian


def write(path: Path, historians: list[Historian]) -> int:
    """Write them as one history; how many operations it has."""
    whole, evictions = History(), []
    for historian in historians:
        whole.attempts += historian.history.attempts
        evictions += historian.evictions()
    return edn.write(path, whole, evictions)


def plays(rule: str) -> Iterator[tuple[str, Callable[[], Historian]]]:
    """The games that may show that a rule is broken."""
    if rule in SCENARIOS:
        yield "its scenario", lambda: directed(rule)
    for seed in (*KNOWN.get(rule, ()), *range(LIMIT)):
        yield f"seed {seed}", lambda seed=seed: scheduled(seed)  # type: ignore[misc]


class Control(NamedTuple):
    """A game with a rule broken, and with the rule in place."""

    name: str
    without: Historian
    whole: Historian


def control(rule: str) -> Control:
    """The first game that goes wrong without the rule. LookupError: none does."""
    for name, play in plays(rule):
        with sabotage(rule), broken(rule):
            without = play()
        # A wrong answer of `locked()` is no operation of the history.
        if any(found.what != "called free while it was held" for found in without.violations):
            return Control(name, without, play())
    raise LookupError(f"{LIMIT} games without the rule {rule!r}, and the referee saw nothing")


def controls(porcupine: Porcupine, folder: Path) -> int:
    """Each broken rule; how many surprises."""
    surprises, path = 0, folder / "history.edn"
    for rule in SABOTAGES:
        if rule in UNSEEN:
            print(f"{rule:<28}cannot be seen in a history: {UNSEEN[rule]}")
            continue
        shown, verdicts = control(rule), []
        for historian in (shown.without, shown.whole):
            write(path, [historian])
            verdicts.append(porcupine.judge(path).legal)
        surprises += verdicts != [False, True]
        told = ["Ok" if legal else "Illegal" for legal in verdicts]
        print(f"{rule:<28}{told[0]:<9}with the rule {told[1]:<9}{shown.name}: ", end="")
        print(shown.without.violations[0].what, flush=True)
    return surprises


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.simulation.histories", description=__doc__)
    parser.add_argument("edn", type=Path, nargs="?", help="write the history to this file")
    parser.add_argument("--seeds", type=int, default=200, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--controls", action="store_true", help="each broken rule instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlock-porcupine-") as made:
        try:
            porcupine = Porcupine(Path(made))
        except MissingError as error:
            print(error, file=sys.stderr)
            return 77  # automake's status of a test that cannot run here
        if options.controls:
            return 1 if controls(porcupine, Path(made)) else 0
        path = options.edn or Path(made) / "history.edn"
        seeds = range(options.first, options.first + options.seeds)
        write(path, [scheduled(seed) for seed in seeds])
        verdict = porcupine.judge(path)
        print(f"{options.seeds} schedules from seed {options.first}: {verdict.told}")
        return 0 if verdict.legal else 1


if __name__ == "__main__":
    sys.exit(main())
