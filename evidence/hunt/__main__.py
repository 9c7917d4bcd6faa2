"""Hunt: search with new seeds on all cores, and print what was covered: ``make hunt MINUTES=10``.

A find is made short and saved in evidence/hunt/found; the quick tests replay what is there. ``--replay FILE``
plays a saved schedule again, and ``--seed N`` a random one, with its history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from ..bugs import BUGS, broken
from ..simulation.play import play
from ..simulation.schedules import Schedule, drawn
from .search import Sum, hunt, shrunk

FOUND = Path(__file__).parent / "found"


def told(result: Sum) -> str:
    modes = ", ".join(f"{count} {mode}" for mode, count in result.modes.most_common())
    return (
        f"{result.played} schedules in {result.seconds:.0f} s ({modes}), {result.grants} grants, "
        f"{result.steps.total()} steps of {len(result.steps)} kinds, {len(result.states)} abstract states"
    )


def replay(schedule: Schedule) -> int:
    outcome = play(schedule, history=True)
    print("\n".join(outcome.history))
    print(outcome)
    return 1 if outcome.violations else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.hunt", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=int(time.time()) * 100_000_000, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=int, default=1 << 60, help="schedules at the most")
    parser.add_argument("--with", dest="bug", choices=BUGS, default="", metavar="BUG", help="have it")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play this schedule only")
    parser.add_argument("--seed", type=int, help="play the schedule of this seed only")
    options = parser.parse_args()
    if options.replay is not None or options.seed is not None:
        with broken(options.bug) if options.bug else nullcontext():
            saved = options.replay and Schedule.loads(options.replay.read_text(encoding="utf-8"))
            return replay(saved or drawn(options.seed))
    where = {"first": options.first, "workers": options.workers, "limit": options.limit}
    result = hunt(**where, seconds=60 * options.minutes, bug=options.bug)
    print(f"first seed {options.first}: {told(result)}")
    if result.find is None:
        print("no violation")
        return 0
    print(f"VIOLATION: {result.find.what}")
    if not options.bug:
        schedule = shrunk(result.find.schedule)
        path = FOUND / f"{options.first}-{result.find.after}.json"
        FOUND.mkdir(exist_ok=True)  # git keeps no empty folder
        path.write_text(schedule.dumps(what=result.find.what) + "\n", encoding="utf-8")
        print(f"{len(schedule.steps)} steps: python -m evidence.hunt --replay {path}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
