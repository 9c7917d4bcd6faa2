"""Soak: processes contend for locks on real masters while a nemesis is at work; a checker reads their notes.

    python -m evidence.soak [--masters 3|5] [--ttl 2|10] [--minutes 3] [--seed N] [--faults kill ...]
    python -m evidence.soak --counter       lost updates with and without the fencing token, Jepsen's workload

With ``--edn FILE`` Porcupine judges the history, too (needs Go). Exit status: 0 passed; 1 a check failed.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import sys
import textwrap
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from evidence.porcupine import MissingError, Porcupine
from evidence.soak.faults import FAULTS
from evidence.soak.run import ALL, Plan, Result, run
from rlock.testing.local.binaries import find_servers, read_version


def main() -> None:
    # The nemesis asks masters that it has killed; what the workers log is in their own files.
    logging.getLogger("rlock").addHandler(logging.NullHandler())
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    fields = {field.name for field in dataclasses.fields(Plan)} & vars(options).keys()
    server = options.server or random.Random(seed).choice([*find_servers()])
    plan = Plan(**{name: getattr(options, name) for name in fields} | {"seed": seed, "server": server})
    if options.counter:
        # Jepsen's figures: five clients, leases of 2 s, something stops every five seconds.
        plan = dataclasses.replace(plan, faults=("freeze-half",), processes=5, holds="jepsen", ttl=2.0)
    print(f"seed {seed}: {plan.processes} processes, {plan.masters} masters, ttl {plan.ttl:g} s", flush=True)
    result = run(plan)
    show(result)
    sys.exit(1 if result.red or (options.edn and not judged(options.edn)) else 0)


def judged(history: Path) -> bool:
    """Whether Porcupine, if it is there, accepts the history."""
    try:
        verdict = Porcupine(history.parent).judge(history)
    except MissingError as missing:
        print(f"  {missing}")
        return True
    print(f"  {verdict.told}")
    return verdict.legal


def _options() -> Any:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--masters", type=int, default=5)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--minutes", dest="seconds", type=lambda text: float(text) * 60, default=180.0)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=ALL)
    parser.add_argument("--counter", action="store_true", help="lost updates under pauses, nothing else")
    parser.add_argument("--keep", type=Path, help="copy the journals of a run that failed to this folder")
    parser.add_argument("--order", choices=("mixed", "fair", "default", "unfair"), default="mixed")
    parser.add_argument("--readers", type=float, default=0.0, help="the share of readers")
    parser.add_argument("--rate", type=float, default=0.009, help="the error of the clients' clocks")
    parser.add_argument("--calm", dest="calm_s", type=float, default=0.0, help="seconds of 90 without faults")
    parser.add_argument("--server", type=lambda path: read_version(Path(path)), help="default: by the seed")
    parser.add_argument("--edn", type=Path, help="write the history here; Porcupine judges it")
    return parser.parse_args()


def show(result: Result) -> None:
    faults = ", ".join(f"{name} {count}" for name, count in result.faults.items())
    told = {"server": result.server, **result.figures}
    told["faults"] = f"{sum(result.faults.values())}: {faults}"
    for key, value in told.items():
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        print(textwrap.fill(text, 108, initial_indent=f"  {key:<24}", subsequent_indent=" " * 26))
    for name, count in result.counts.items():
        percent = 100.0 * count.lost / max(1, count.acknowledged)
        print(f"  lost updates, {name:<10}{count.lost} of {count.acknowledged} ({percent:.1f} %)")
    if result.kept:
        print(f"  journals kept in        {result.kept}")
    print(f"  verdict                 {'RED: ' + ', '.join(result.failed) if result.red else 'green'}")
    for finding in result.findings[:10]:
        print(f"    {finding}")


if __name__ == "__main__":
    main()
