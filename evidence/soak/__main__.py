"""Soak: processes contend for locks on real masters while a nemesis is at work; a checker reads their notes.

    python -m evidence.soak [--masters 3|5] [--ttl 2|10] [--minutes 3] [--seed N] [--faults all|kill,...]
    python -m evidence.soak --faults late-release,late-confirmation     hand-offs whose bytes come late
    python -m evidence.soak --counter       lost updates with and without the fencing token, Jepsen's workload
    python -m evidence.soak --controls      breaks each rule of safety on purpose: each must be noticed
    python -m evidence.soak --break NAME    one of these, under the faults that you choose

Exit status: 0 all checks passed; 1 one failed; with ``--controls``: one that should have failed did not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import random
import sys
import textwrap
from pathlib import Path
from typing import Any

from evidence.soak.field import FAULTS
from evidence.soak.plan import ALL, ALL_OF_GROUPS, Plan, Result
from evidence.soak.profiles import PROFILES, TRIES
from evidence.soak.run import run
from rlock.testing.contention.counter import Count
from rlock.testing.local.binaries import read_version

#: Published by Jepsen: jepsen.io/analyses/etcd-3.4.3 (2020).
ETCD = (
    "etcd 3.4.3 locks under Jepsen (2 s ttl, 5 processes, a pause every 5 s): about 18 % lost; guarded: none"
)


def main() -> None:
    """Parse, run, print, exit."""
    # The nemesis asks masters that it has killed; what the workers log is in their own files.
    logging.getLogger("rlock").addHandler(logging.NullHandler())
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    if options.controls:
        sys.exit(controls(seed, options.only, options.json))
    everything = ALL if options.groups is None else ALL_OF_GROUPS
    faults = everything if options.faults == "all" else tuple(filter(None, options.faults.split(",")))
    unknown = set(faults) - FAULTS.keys()
    if unknown:
        sys.exit(f"unknown faults: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    plan = Plan(
        seconds=options.minutes * 60,
        seed=seed,
        masters=options.masters,
        ttl=options.ttl,
        replicas=options.groups,
        acknowledged=options.acknowledged,
        faults=faults,
        processes=options.processes,
        sabotage=options.sabotage,
        keep=options.keep,
        edn=options.edn,
        order=options.order,
        rate=options.rate,
        calm_s=options.calm,
        server=None if options.server is None else read_version(options.server),
    )
    if options.counter:
        # Jepsen's figures: five clients, leases of 2 s, something stops every five seconds.
        plan = dataclasses.replace(plan, faults=("freeze-half",), processes=5, holds="jepsen", ttl=2.0)
    print(f"seed {seed}: {plan.processes} processes, {plan.masters} masters, ttl {plan.ttl:g} s", flush=True)
    result = run(plan)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(figures(result), indent=2) + "\n")
    sys.exit(1 if result.red else 0)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--masters", type=int, default=5)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--groups", type=int, help="each master is a group with so many replicas")
    parser.add_argument("--acknowledged", type=int, help="replicas= in the URLs of groups, if not --groups")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", default="all", help=f"all, or some of: {', '.join(FAULTS)}")
    parser.add_argument("--break", dest="sabotage", default="", help="a bug of evidence/bugs")
    parser.add_argument("--counter", action="store_true", help="lost updates under pauses, nothing else")
    parser.add_argument("--controls", action="store_true", help="every bug that it can find, in turn")
    parser.add_argument("--only", default="", help="with --controls: those whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--keep", type=Path, help="copy the journals of a run that failed to this folder")
    parser.add_argument("--order", choices=("mixed", "fair", "default", "unfair"), default="mixed")
    parser.add_argument("--rate", type=float, default=0.005, help="the error of the clients' clocks")
    parser.add_argument("--calm", type=float, default=0.0, help="seconds of 90 without faults of masters")
    parser.add_argument("--server", type=Path, help="which server program")
    parser.add_argument("--edn", type=Path, help="write the history to this file, for evidence/porcupine")
    return parser.parse_args()


def controls(seed: int, only: str, target: Path | None) -> int:
    """Break each rule in turn, and run the same with nothing broken; how many surprises there were."""
    head = f"{'broken rule':<28}{'masters':>8}{'ttl':>5}  {'broken':<34}{'nothing broken'}"
    print(f"seed {seed}\n{head}\n{'-' * len(head)}", flush=True)
    rows, surprises = [], 0
    for profile in PROFILES:
        if only not in profile.sabotage:
            continue
        plan = profile.plan
        for attempt in range(TRIES):
            broken = profile.broken(seed + attempt)
            noticed = bool(set(broken.failed) & set(profile.checks))
            if noticed:
                break
        told = f"RED after {broken.red_after_s:.1f} s: {broken.failed[0]}" if broken.red else "green (!)"
        told += "" if noticed or not broken.red else " (!)"
        start = f"{profile.sabotage:<28}{plan.masters:>8}{plan.ttl:>5g}  {told:<34}"
        print(start, end="", flush=True)
        whole = profile.whole(seed)
        green = f"green, {whole.figures['holds']} holds"
        print(f"RED (!): {', '.join(whole.failed)}" if whole.red else green, flush=True)
        for finding in whole.findings[:3]:
            print(f"    {finding}", flush=True)
        surprises += (not noticed) + whole.red
        rows.append(
            {
                "broken": figures(broken) | {"red_after_s": broken.red_after_s},
                "whole": figures(whole),
                "noticed": noticed,
            }
        )
    print(f"{'all breaches noticed, no false alarm' if not surprises else f'{surprises} surprises'}")
    if target:
        target.write_text(json.dumps(rows, indent=2) + "\n")
    return 1 if surprises else 0


def figures(result: Result) -> dict[str, Any]:
    """A result as JSON takes it."""
    plan = result.plan
    return {
        "server": result.server,
        "seed": plan.seed,
        "seconds": plan.seconds,
        "masters": plan.masters,
        "ttl_s": plan.ttl,
        "processes": plan.processes,
        "broken": plan.sabotage,
        "faults": result.faults,
        **result.figures,
        "updates": {
            name: {"acknowledged": count.acknowledged, "lost": count.lost, "percent": _percent(count)}
            for name, count in result.counts.items()
        },
        "findings": [str(finding) for finding in result.findings],
    }


def _percent(count: Count) -> float:
    return 100.0 * count.lost / count.acknowledged if count.acknowledged else 0.0


def show(result: Result) -> None:
    """The table at the end."""
    told = figures(result)
    updates = told.pop("updates")
    findings = told.pop("findings")
    told.pop("each_failover", None)
    told["faults"] = f"{sum(result.faults.values())}: " + ", ".join(
        f"{k} {v}" for k, v in result.faults.items()
    )
    told["longest_gap_s"] = ", ".join(f"{name} {gap:.1f}" for name, gap in told["longest_gap_s"].items())
    for key, value in told.items():
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        print(textwrap.fill(text, 108, initial_indent=f"  {key:<24}", subsequent_indent=" " * 26))
    for name, update in updates.items():
        lost = f"{update['lost']} of {update['acknowledged']} ({update['percent']:.1f} %)"
        print(f"  lost updates, {name:<10}{lost}")
    print(f"  beside it               {ETCD}")
    if result.kept:
        print(f"  journals kept in        {result.kept}")
    print(f"  verdict                 {'RED: ' + ', '.join(result.failed) if result.red else 'green'}")
    for finding in findings[:10]:
        print(f"    {finding}")


if __name__ == "__main__":
    main()
