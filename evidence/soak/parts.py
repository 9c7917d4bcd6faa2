"""A long soak in parts: both sizes of fleet, both leases, both orders, each server; a line for each part.

    python -m evidence.soak.parts FOLDER [--minutes 180] [--seed 1] [--at-once 2] [--only fair]

Each part is a `python -m evidence.soak` of its own with all faults, half of its processes on rlock.asyncio.
Its history is judged by Porcupine, too (needs Go). FOLDER/results.txt gets the lines, and each part has its
output, its figures and its history (.out, .json, .edn) beside it; a red one also its journals.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rlock.testing.local.binaries import ServerBinary, find_servers

from ..porcupine import MissingError, Porcupine
from .crew import ROOT


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


def main() -> None:
    """Run the parts, so many at once, each at a low priority."""
    parser = argparse.ArgumentParser(prog="python -m evidence.soak.parts")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=180.0, help="of all parts together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", default="", help="parts whose line begins with this or holds it")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.nice(10)
    porcupine = None
    with contextlib.suppress(MissingError):
        porcupine = Porcupine(folder)
    chosen = [part for part in parts(options.seed) if options.only in str(part)]
    minutes = options.minutes / len(chosen)
    with ThreadPoolExecutor(options.at_once) as pool, (folder / "results.txt").open("a") as results:
        lines = [pool.submit(part.run, folder, minutes, porcupine) for part in chosen]
        for line in lines:
            print(line.result(), file=results, flush=True)
            print(line.result(), flush=True)


if __name__ == "__main__":
    main()
