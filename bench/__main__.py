"""How fast rlock is, next to its peers and to the limit: `make bench`, `make bench-quick`.

    python -m bench [--quick] [--only SCENARIO ...] [--contestants KEY ...] [--json FILE]
                    [--masters-binary PATH]

Exit status: 0 every demand on rlock that was measured was kept; 1 one was missed, or a scenario broke down;
2 bad input; 130 interrupted, and nothing was written.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import signal
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, cast

from rlock.testing.local.embedded import EmbeddedError

from .harness import demands, machine, masters, plan
from .harness.contestant import ROOT
from .harness.field import Entry, field, of, prepare
from .harness.lineup import Lineup
from .harness.results import Case, Results, Scenario
from .report import page, tables

PUBLISHED = ROOT / "docs" / "performance" / "results.json"
RESULTS = ROOT / "bench" / "results"


class Parser(argparse.ArgumentParser):
    """One line for bad input, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bench: {message}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit status."""
    options = parse(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        results, broken = measure(options.entries, options.scenarios, options.quick)
    except KeyboardInterrupt:
        say("interrupted: everything that was started is ended, nothing was written")
        return 130
    options.json.write_text(results.to_json(), encoding="utf-8")
    if options.publish:
        page.publish(results)
    print(tables.render(results))
    verdicts = demands.judge(results)
    print("\n" + "\n".join(str(verdict) for verdict in verdicts if verdict.kept is not None))
    say(f"\n{results.took_s:.0f} s in all; the results are in {options.json}")
    return 1 if broken or any(verdict.kept is False for verdict in verdicts) else 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    # A second Ctrl-C would interrupt the ending of what the first one left.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The options, checked before anything is started."""
    parser = Parser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two minutes; read nothing out of the figures")
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help=", ".join(plan.names()))
    parser.add_argument("--contestants", nargs="+", metavar="KEY", help=", ".join(e.key for e in field()))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    parser.add_argument("--masters-binary", type=Path, metavar="PATH", help="the server of the masters")
    options = parser.parse_args(words)
    try:
        options.scenarios = plan.choose(options.only)
        options.entries = field(options.contestants)
        if options.masters_binary:
            masters.choose(options.masters_binary)
        masters.server()
    except (plan.UnknownScenario, ValueError) as error:
        parser.error(str(error))
    except EmbeddedError as error:
        parser.error(error.message)
    full = not (options.quick or options.only or options.contestants)
    options.publish = full and options.json is None
    if options.publish and importlib.util.find_spec("matplotlib") is None:
        # Known now, not after a quarter of an hour.
        parser.error("the plots of a full run need matplotlib: pip install -e '.[bench]'; or choose a --json")
    if options.json is None:
        name = "quick" if options.quick else "partial"
        options.json = PUBLISHED if full else RESULTS / name / "results.json"
    try:
        writable(options.json)
    except OSError as error:
        parser.error(f"cannot write {options.json}: {error.strerror}")
    return options


def writable(path: Path) -> None:
    """Raise `OSError` now, not after a quarter of an hour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.exists()
    with path.open("ab"):
        pass
    if not there:
        path.unlink()


def measure(entries: Sequence[Entry], scenarios: Sequence[str], quick: bool) -> tuple[Results, bool]:
    """All scenarios, one after another; and whether one broke down."""
    now = datetime.datetime.now(datetime.timezone.utc)
    results = Results(machine.describe(), {}, now.isoformat(timespec="seconds"), 0.0, quick)
    began = time.monotonic()
    reasons = prepare(entries)
    for key, reason in reasons.items():
        say(f"{key} cannot run: {reason}")
    say(f"{'environments':<13}{time.monotonic() - began:6.1f} s")
    # What is built once is no part of a run.
    began = time.monotonic()
    results.versions = versions(entries)
    broken = False
    for name in scenarios:
        scenario = plan.load(name)
        told = Scenario(scenario.NAME, scenario.TITLE, scenario.QUESTION)
        results.scenarios.append(told)
        started = time.monotonic()
        end = ""
        try:
            cases = scenario.run(of(name, entries), plan.budget_s(name, quick), quick)
            # Closed here: on Ctrl-C between two cases nobody else would end what it has started.
            with contextlib.closing(cast("Generator[Case, None, None]", cases)):
                told.cases.extend(cases)
        except Exception as error:
            broken = True
            end = f"; broke down: {type(error).__name__}: {error}"
        failed = sorted({key for case in told.cases for key, row in case.rows.items() if _failed(row.error)})
        failures = f"; failed: {', '.join(failed)}" if failed else ""
        say(f"{name:<13}{time.monotonic() - started:6.1f} s  {len(told.cases)} cases{failures}{end}")
    results.took_s = round(time.monotonic() - began, 1)
    return results, broken


def _failed(error: str | None) -> bool:
    return error is not None and not error.startswith("Unsupported:")


def versions(entries: Sequence[Entry]) -> dict[str, str]:
    """What each says that it is; of those that cannot run, nothing: their rows say why."""
    with masters.Masters(1) as fleet, Lineup((entry, fleet.urls) for entry in entries) as lineup:
        return {one.key: one.version for one in lineup.runners if one.version}


def say(line: str) -> None:
    """Progress: not part of the tables."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
