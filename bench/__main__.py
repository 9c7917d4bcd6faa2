"""How fast rlock is, next to other locks and to the limit: `make bench`, `make bench-quick`.

    python -m bench [--quick] [--only SCENARIO ...] [--contestants KEY ...] [--json FILE]
                    [--masters-binary PATH]

The results go to build/bench/. Exit status: 0 every demand on rlock that was measured is kept; 1 a demand is
missed, or a scenario broke down; 2 bad input; 3 nothing is missed, but a demand is undecided: its interval
straddles its bound, or fewer than five rounds are behind it; 130 interrupted, and nothing was written. A
quick run has too few rounds: it judges only the demands that count events.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, cast

from rlock.testing.local.embedded import EmbeddedError

from .harness import demands, machine, masters, plan, verdicts
from .harness.contestants import ALL, Contestant, prepare, select, taking_part
from .harness.results import Case, Results, Scenario
from .harness.turns import Runners
from .harness.verdicts import Outcome, Verdict
from .harness.worker import ROOT
from .report import tables

RESULTS = ROOT / "build" / "bench"


class Parser(argparse.ArgumentParser):
    """One line for bad input, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bench: {message}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Run the scenarios, print tables and verdicts; the exit status."""
    options = parse(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        results, broken = measure(options.contestants, options.scenarios, options.quick)
    except KeyboardInterrupt:
        say("interrupted: everything that was started is ended, nothing was written")
        return 130
    results.verdicts = demands.judge(results)
    results.write(options.json)
    print(tables.render(results))
    status, why = judged(results.verdicts, options.quick, broken)
    measured = [v for v in results.verdicts if verdicts.outcome(v) is not Outcome.NOT_MEASURED]
    print("\n" + "\n".join(map(verdicts.line, measured)))
    say(f"\n{results.took_s:.0f} s in all; the results are in {options.json}")
    say(f"exit status {status}: {why}")
    return status


def judged(found: Sequence[Verdict], quick: bool, broken: bool) -> tuple[int, str]:
    counts = Counter(verdicts.outcome(each) for each in found if each.counted or not quick)
    kept, missed, undecided = (counts[one] for one in (Outcome.KEPT, Outcome.MISSED, Outcome.UNDECIDED))
    why = f"{kept} demands are kept, {missed} missed, {undecided} undecided"
    if undecided:
        why += " (the interval straddles the bound, or fewer than five rounds are behind it)"
    if quick:
        why += "; a quick run judges only the demands that count events"
    if broken:
        why += "; a scenario broke down"
    return 1 if broken or missed else 3 if undecided else 0, why


def _interrupted(number: int, frame: FrameType | None) -> None:
    # A second Ctrl-C would interrupt the cleaning up after the first one.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two minutes; the figures mean nothing")
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help=", ".join(plan.BUDGETS_S))
    parser.add_argument("--contestants", nargs="+", metavar="KEY", help=", ".join(one.key for one in ALL))
    parser.add_argument("--json", type=Path, metavar="FILE", help="the file for the results")
    parser.add_argument("--masters-binary", type=Path, metavar="PATH", help="the server of the masters")
    options = parser.parse_args(words)
    part = options.only or options.contestants
    try:
        options.scenarios = plan.choose(options.only)
        options.contestants = select(options.contestants)
        if options.masters_binary:
            masters.choose(options.masters_binary)
        masters.server()
    except ValueError as error:
        parser.error(str(error))
    except EmbeddedError as error:
        parser.error(error.message)
    if options.json is None:
        options.json = RESULTS / f"{'quick' if options.quick else 'partial' if part else 'results'}.json"
    try:
        writable(options.json)
    except OSError as error:
        parser.error(f"cannot write {options.json}: {error.strerror}")
    return options


def writable(path: Path) -> None:
    """Raise `OSError` now, not after a quarter of an hour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.exists()
    path.open("ab").close()
    if not there:
        path.unlink()


def measure(contestants: Sequence[Contestant], scenarios: Sequence[str], quick: bool) -> tuple[Results, bool]:
    """All scenarios, one after another; and whether one broke down."""
    now = datetime.datetime.now(datetime.UTC)
    results = Results(machine.describe(), {}, now.isoformat(timespec="seconds"), 0.0, quick)
    began = time.monotonic()
    for key, reason in prepare(contestants).items():
        say(f"{key} is left out: {reason}")
    say(f"{'environments':<13}{time.monotonic() - began:6.1f} s")
    # The builds are no part of a run: each happens once.
    began = time.monotonic()
    results.versions = versions(contestants)
    broken = False
    for name in scenarios:
        module = importlib.import_module(f"bench.scenarios.{name}")
        scenario = Scenario(module.NAME, module.TITLE, module.QUESTION)
        results.scenarios.append(scenario)
        started = time.monotonic()
        end = ""
        try:
            cases = module.run(
                taking_part(name, contestants), plan.QUICK_S if quick else plan.BUDGETS_S[name], quick
            )
            # Closed here: otherwise Ctrl-C between two cases would leave masters and workers behind.
            with contextlib.closing(cast("Generator[Case, None, None]", cases)):
                scenario.cases.extend(cases)
        except Exception as error:
            broken = True
            end = f"; broke down: {type(error).__name__}: {error}"
        rows = [(key, row) for case in scenario.cases for key, row in case.rows.items()]
        failed = sorted({key for key, row in rows if tables.failed(row.error)})
        failures = f"; failed: {', '.join(failed)}" if failed else ""
        say(f"{name:<13}{time.monotonic() - started:6.1f} s  {len(scenario.cases)} cases{failures}{end}")
    results.took_s = round(time.monotonic() - began, 1)
    return results, broken


def versions(contestants: Sequence[Contestant]) -> dict[str, str]:
    """The version of each contestant that runs; the rows of the others say why they do not."""
    with masters.Masters(1) as started, Runners((one, started.urls) for one in contestants) as runners:
        return {runner.key: runner.version for runner in runners.runners if runner.version}


def say(line: str) -> None:
    """Progress: not part of the tables."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
