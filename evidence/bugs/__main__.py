"""Search for each bug, and print what found it and after how long: ``python -m evidence.bugs``.

The bar: each within 20,000 schedules and ten minutes on two cores, by the search of `evidence/hunt`, which
knows nothing of them. ``--only NAME``: exit 0 if it is found. ``--save``: keep the schedule, made short, in
found.jsonl; the quick tests replay those.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from ..hunt.search import Sum, hunt, shrunk
from ..simulation.schedules import Schedule
from . import BUGS, broken

LIMIT, SECONDS = 20_000, 600.0
FOUND = Path(__file__).parent / "found.jsonl"


def found() -> dict[str, Schedule]:
    """The saved schedules, by bug."""
    lines = FOUND.read_text(encoding="utf-8").splitlines() if FOUND.exists() else []
    return {json.loads(line)["bug"]: Schedule.loads(line) for line in lines}


def save(name: str, schedule: Schedule) -> None:
    kept = {**found(), name: schedule}
    FOUND.write_text("".join(kept[name].dumps(bug=name) + "\n" for name in sorted(kept)), encoding="utf-8")


def row(name: str, result: Sum) -> str:
    start = f"{name:<36}{result.played:>9}{result.cpu_s:>8.0f} s  "
    if result.find is None:
        return start + "NOT FOUND"
    return f"{start}{result.find.schedule.setup.mode:<9}{result.find.what.partition(': ')[2]:.90}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.bugs", description=__doc__)
    parser.add_argument("--list", action="store_true", help="each bug, with its rule and a sentence")
    parser.add_argument("--only", choices=BUGS, metavar="NAME", action="append", help="this bug")
    parser.add_argument("--limit", type=int, default=LIMIT, help="schedules at the most")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each bug at the most")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--save", action="store_true", help="keep what was found")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{each.rule} {each.name}: {each.sentence}" for each in BUGS.values()))
        return 0
    print(f"{'bug':<36}{'schedules':>8}{'time':>9}  mode     what was noticed")
    missed = 0
    for name in options.only or BUGS:
        where = {"first": options.first, "workers": options.workers, "limit": options.limit}
        result = hunt(**where, seconds=options.seconds, bug=name)
        missed += result.find is None or " argument" in result.find.what  # of a patch that is out of date
        print(row(name, result), flush=True)
        if options.save and result.find is not None:
            with broken(name):
                save(name, shrunk(result.find.schedule, 20.0))
    print(f"{len(options.only or BUGS) - missed} of {len(options.only or BUGS)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
