"""Histories of the simulation in EDN, for Porcupine: ``python -m evidence.simulation.histories h.edn``.

The schedules of ``--seeds`` are one history, in which each schedule has locks of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rlock.rules.holds import Hold
from rlock.testing.contention import edn
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import Attempt, Grant, History, Look
from rlock.testing.contention.journal import SECOND

from ..porcupine import MissingError, Porcupine
from .client import Client
from .play import Play
from .referee import Referee, valid_for
from .schedules import drawn
from .world import World


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
    play = Play(drawn(seed))
    historian = Historian(play.world, f"{seed}/")
    play.world.referee = historian
    play.play()
    return historian


def write(path: Path, historians: list[Historian]) -> int:
    """Write them as one history; how many operations it has."""
    whole, evictions = History(), []
    for historian in historians:
        whole.attempts += historian.history.attempts
        evictions += historian.evictions()
    return edn.write(path, whole, evictions)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.simulation.histories", description=__doc__)
    parser.add_argument("edn", type=Path, nargs="?", help="write the history to this file")
    parser.add_argument("--seeds", type=int, default=200, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlock-porcupine-") as made:
        try:
            porcupine = Porcupine(Path(made))
        except MissingError as error:
            print(error, file=sys.stderr)
            return 77  # automake's status of a test that cannot run here
        path = options.edn or Path(made) / "history.edn"
        seeds = range(options.first, options.first + options.seeds)
        write(path, [scheduled(seed) for seed in seeds])
        verdict = porcupine.judge(path)
        print(f"{options.seeds} schedules from seed {options.first}: {verdict.told}")
        return 0 if verdict.legal else 1


if __name__ == "__main__":
    sys.exit(main())
