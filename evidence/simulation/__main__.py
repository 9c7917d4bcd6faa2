"""Play random schedules: ``python -m evidence.simulation --seeds 20000``, or one: ``--seed N``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack

from ..bugs import BUGS, broken
from .play import Outcome, play
from .schedules import drawn


class Sum:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self.schedules = self.grants = self.restarts = self.commands = 0
        self.with_groups = self.of_groups = self.failovers = 0
        self.virtual_s = self.slowest_s = 0.0
        self.faults: Counter[str] = Counter()
        self.bad: list[int] = []

    def add(self, outcome: Outcome) -> None:
        self.schedules += 1
        self.grants += outcome.grants
        self.restarts += outcome.restarts
        self.failovers += outcome.failovers
        self.with_groups += bool(outcome.schedule.setup.replicas)
        self.of_groups += outcome.grants if outcome.schedule.setup.replicas else 0
        self.commands += outcome.commands
        self.virtual_s += outcome.virtual_s
        self.slowest_s = max(self.slowest_s, outcome.took_s)
        self.faults += outcome.faults
        if outcome.violations:
            self.bad.append(outcome.schedule.seed)

    def __str__(self) -> str:
        took_s = time.monotonic() - self._began
        return (
            f"{self.schedules} schedules in {took_s:.0f} s ({60 * self.schedules / took_s:.0f} a minute), "
            f"{self.virtual_s / 3600:.1f} virtual hours, {self.commands} commands, {self.grants} grants, "
            f"{self.faults.total()} faults, {self.restarts} restarts of masters, calm after at most "
            f"{self.slowest_s:.1f} s, {len(self.bad)} with violations; "
            f"{self.with_groups} have groups, with {self.of_groups} grants and {self.failovers} failovers"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one only, with its history")
    parser.add_argument("--without", choices=BUGS, metavar="BUG", help="play them with a bug")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.without:
            stack.enter_context(broken(options.without))
        if options.seed is not None:
            outcome = play(drawn(options.seed), history=True)
            print("\n".join(outcome.history))
            print(outcome)
            return 1 if outcome.violations else 0
        total = Sum()
        for seed in range(options.first, options.first + options.seeds):
            outcome = play(drawn(seed))
            total.add(outcome)
            if outcome.violations:
                print(outcome, flush=True)
    print(total)
    return 1 if total.bad else 0


if __name__ == "__main__":
    sys.exit(main())
