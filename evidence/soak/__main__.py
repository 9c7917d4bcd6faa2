"""Soak: processes contend for locks on real masters while a nemesis is at work; a checker reads their notes.

    python -m evidence.soak [--masters 3|5] [--ttl 2|10] [--minutes 3] [--seed N] [--faults all|kill,...]
    python -m evidence.soak --counter       lost updates with and without the fencing token, Jepsen's workload
    python -m evidence.soak --controls      breaks each rule of safety on purpose: each must be noticed
    python -m evidence.soak --break NAME    one of these, under the faults that you choose
    python -m evidence.soak --parts FOLDER --minutes 180    all sizes, leases and orders on each server

With ``--parts`` each part is a soak of its own with all faults. FOLDER gets its output, its figures and its
history (.out, .json, .edn), and a line in results.txt. Porcupine judges the history, too (needs Go).

Exit status: 0 all checks passed; 1 one failed; with ``--controls``: one that should have failed did not.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.porcupine import MissingError, Porcupine
from evidence.soak.field import FAULTS, ROOT
from evidence.soak.plan import ALL, ALL_OF_GROUPS, Plan, Result
from evidence.soak.profiles import PROFILES, TRIES
from evidence.soak.run import run
from rlock.testing.contention.counter import Count
from rlock.testing.local.binaries import ServerBinary, find_servers, read_version

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
    if options.parts:
        sys.exit(run_parts(seed, options.seconds / 60, options.only, options.parts.resolve()))
    everything = ALL if options.replicas is None else ALL_OF_GROUPS
    faults = everything if options.faults == "all" else tuple(filter(None, options.faults.split(",")))
    unknown = set(faults) - FAULTS.keys()
    if unknown:
        sys.exit(f"unknown faults: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    named = {field.name for field in dataclasses.fields(Plan)} & vars(options).keys()
    plan = Plan(**{name: getattr(options, name) for name in named} | {"seed": seed, "faults": faults})
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
    parser.add_argument("--groups", dest="replicas", type=int, help="each master has so many replicas")
    parser.add_argument("--acknowledged", type=int, help="replicas= in the URLs of groups, if not --groups")
    parser.add_argument("--minutes", dest="seconds", type=lambda text: float(text) * 60, default=180.0)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", default="all", help=f"all, or some of: {', '.join(FAULTS)}")
    parser.add_argument("--break", dest="sabotage", default="", help="a bug of evidence/bugs")
    parser.add_argument("--counter", action="store_true", help="lost updates under pauses, nothing else")
    parser.add_argument("--controls", action="store_true", help="every bug that it can find, in turn")
    parser.add_argument("--parts", type=Path, metavar="FOLDER", help="a long soak in parts")
    parser.add_argument("--only", default="", help="controls or parts whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--keep", type=Path, help="copy the journals of a run that failed to this folder")
    parser.add_argument("--order", choices=("mixed", "fair", "default", "unfair"), default="mixed")
    parser.add_argument("--rate", type=float, default=0.005, help="the error of the clients' clocks")
    parser.add_argument("--calm", dest="calm_s", type=float, default=0.0, help="seconds of 90 without faults")
    parser.add_argument("--server", type=lambda path: read_version(Path(path)), help="which program")
    parser.add_argument("--edn", type=Path, help="write the history to this file, for evidence/porcupine")
    return parser.parse_args()


def controls(seed: int, only: str, target: Path | None) -> int:
    """Break each rule in turn, and run the same with nothing broken; how many surprises there were."""
    print(f"seed {seed}\n| broken rule | masters | ttl | broken | nothing broken |\n|---|--:|--:|---|---|")
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
        print(f"| {profile.sabotage} | {plan.masters} | {plan.ttl:g} s | {told}", end="", flush=True)
        whole = profile.whole(seed)
        green = f"green, {whole.figures['holds']} holds"
        print(f" | {f'RED (!): {whole.failed}' if whole.red else green} |", flush=True)
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


@dataclass(frozen=True)
class Part:
    seed: int
    server: ServerBinary
    masters: int
    ttl: float
    order: str

    def __str__(self) -> str:
        return f"{self.server}, {self.masters} masters, ttl {self.ttl:g} s, {self.order}, seed {self.seed}"

    def run(self, folder: Path, minutes: float, porcupine: Porcupine | None) -> str:
        stem = folder / f"part-{self.seed}"
        history, told = stem.with_suffix(".edn"), stem.with_suffix(".json")
        options = {
            "masters": self.masters,
            "ttl": self.ttl,
            "order": self.order,
            "seed": self.seed,
            "server": self.server.path,
            "minutes": minutes,
            "processes": 4,
            "calm": 30,
            "edn": history,
            "json": told,
            "keep": folder,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        command = [sys.executable, "-m", "evidence.soak", *words]
        with stem.with_suffix(".out").open("w") as out:
            code = subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, check=False).returncode
        if not told.exists():
            return f"{self}: NO RESULT, see {stem}.out"
        figures = json.loads(told.read_text())
        line = f"{self}: {'green' if code == 0 else 'RED'}, {minutes:g} minutes, {figures['holds']} holds"
        line += f", {sum(figures['faults'].values())} faults, {figures['lost_before_their_time']} lost early"
        if "waits_in_order" in figures:
            line += f", {figures['waits_in_order']} waits in order"
            line += f" (overtaken: {figures['overtaken_excused']} with an excuse)"
        line += "".join(f"; {finding.splitlines()[0]}" for finding in figures["findings"])
        if porcupine is not None and history.exists():
            line += f"; {porcupine.judge(history).told}"
        return line


def parts(seed: int) -> Iterator[Part]:
    """Each combination, on each server of this machine."""
    combined = itertools.product((3, 5), (2.0, 10.0), ("fair", "default"), find_servers())
    for number, (masters, ttl, order, server) in enumerate(combined):
        yield Part(seed + number, server, masters, ttl, order)


def run_parts(seed: int, minutes: float, only: str, folder: Path) -> int:
    """Run all parts in so many minutes, two at once at a low priority. 1: one was not green."""
    folder.mkdir(parents=True, exist_ok=True)
    os.nice(10)
    porcupine = None
    with contextlib.suppress(MissingError):
        porcupine = Porcupine(folder)
    chosen = [part for part in parts(seed) if only in str(part)]
    with ThreadPoolExecutor(2) as pool, (folder / "results.txt").open("a") as results:
        lines = [pool.submit(part.run, folder, minutes / len(chosen), porcupine) for part in chosen]
        for line in lines:
            print(line.result(), file=results, flush=True)
            print(line.result(), flush=True)
    return 1 if any("green" not in line.result() or "Illegal" in line.result() for line in lines) else 0


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
    told["faults"] = f"{sum(result.faults.values())}: " + ", ".join(
        f"{k} {v}" for k, v in result.faults.items()
    )
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
