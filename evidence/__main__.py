"""``python -m evidence``: all parts of the evidence, also if one fails; it says at the end what failed.

Models run beside the client with its real masters and interrupts, one part of each at a time.
build/evidence/ gets the output of each part (PART.txt), and its result with commit, date and machine
(PART.json). ``--publish`` puts these results into the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
FOLDER = TOP / "build" / "evidence"
#: The results that the pages show, for docs/tools/site_evidence.py.
PUBLISHED = TOP / "docs" / "evidence" / "results.json"
LIMIT_S = 6 * 3600.0  # a part that takes longer hangs
MISSING = 77  # automake's status of a test that cannot run here
#: A pytest run, the rows of a Markdown table, and the figures of a soak.
TESTS, TABLE = r"^\d+ passed.*", r"^\|.*"
SOAK = r"^  ((?:holds|faults|lost_before_their_time) +\d+|(?:lost updates,|verdict|porcupine:) .*)"


@dataclass(frozen=True)
class Part:
    """One command of the evidence, and which of its lines are the result."""

    name: str
    title: str
    scope: str
    command: str  # behind `python -m`
    result: str = ""  # a pattern of lines for the table of all parts
    rows: str = ""  # a pattern of lines for a table of its own
    quick: str = ""  # .ci/run runs it, with these further options
    long: bool = False  # only with --long, or by its name


_SPEC, _SIMULATION = "[the specification](spec/README.md)", "simulation"
_CONFORMANCE = "[conformance](spec/README.md#the-code-follows-the-specification)"
_SCHEDULES, _HUNT = r"^\d+ schedules.*", r"^first seed .*"
MODELS = (
    Part("spec", _SPEC, "TLC: the scopes of less than half a minute", "evidence.spec", rows=TABLE),
    Part("spec-full", _SPEC, "TLC: all scopes", "evidence.spec --full", rows=TABLE, long=True),
    Part("conformance", _CONFORMANCE, "TLC follows the client's code in random schedules",
         "evidence.spec.conformance --seeds 300", _SCHEDULES, quick="--seeds 150"),
    Part("conformance-controls", _CONFORMANCE, "each rule broken in the code",
         "evidence.spec.conformance --controls", rows=TABLE),
    Part("simulation", _SIMULATION, "the client's code under all faults, in virtual time",
         "evidence.hunt --first 0 --limit 3000 --workers 1 --minutes 60", _HUNT),
    Part("simulation-long", _SIMULATION, "the same",
         "evidence.hunt --first 300000 --limit 20000 --workers 1 --minutes 300", _HUNT, long=True),
    Part("scenarios", _SIMULATION, "each bug that this project had, in its schedule",
         "pytest -q evidence/bugs evidence/hunt", TESTS),
)  # fmt: skip
CLIENT = (
    Part("faults", "fault tests",
         "[the table of faults](../docs/guarantees.md#what-each-fault-does), on real masters",
         "pytest -q tests/faults tests/masters", TESTS),
    Part("neighbours", "neighbours", "one bad master, resolver or Sentinel beside a healthy quorum",
         "evidence.neighbours --quick", rows=TABLE),
    Part("neighbours-long", "neighbours", "the same with all clients, orders and numbers of masters",
         "evidence.neighbours", rows=TABLE, long=True),
    Part("neighbours-crowd", "neighbours", "200 clients and one bad master: connections and log lines",
         "evidence.neighbours --crowd 200", rows=TABLE),
    Part("power-cuts", "power cuts", "three masters lose the bytes that they have not synced",
         "evidence.power_cuts --cuts 30", rows=r"^.+: \d+ cuts \(.*"),
    Part("power-cuts-long", "power cuts", "the same", "evidence.power_cuts --cuts 500",
         rows=r"^.+: \d+ cuts \(.*", long=True),
    Part("soak-3", "soak", "processes on real masters, all faults",
         "evidence.soak --masters 3 --ttl 2 --minutes 1 --edn build/evidence/soak-3.edn", SOAK,
         quick="--minutes 0.5"),
    Part("soak-5", "soak", "the same",
         "evidence.soak --masters 5 --ttl 10 --minutes 1 --edn build/evidence/soak-5.edn", SOAK),
    *(Part(f"soak-{order}-{masters}-{ttl}", "soak", "the same for long; Porcupine judges the history",
           f"evidence.soak --masters {masters} --ttl {ttl} --order {order} --minutes 25 --processes 4"
           f" --calm 30 --edn build/evidence/{order}-{masters}-{ttl}.edn", SOAK, long=True)
      for masters in (3, 5) for ttl in (2, 10) for order in ("fair", "default")),
    Part("counter", "lost updates", "a counter, whose clients are stopped",
         "evidence.soak --counter --minutes 0.7", SOAK),
    Part("soak-controls", "soak", "each rule broken in the code", "pytest -q evidence/soak", TESTS),
    Part("interrupts", "interrupts", "KeyboardInterrupt at each instant of each public operation",
         "evidence.interrupts", r"^\d+ instants, .*"),
    Part("interrupts-asyncio", "interrupts", "a cancellation of a task at each turn of its loop",
         "evidence.interrupts --asyncio", r"^\d+ instants, .*"),
    Part("interrupts-again", "interrupts", "a signal handler that uses the client there",
         "evidence.interrupts --again --masters 3 --every 25", r"^\d+ instants, .*"),
    Part("interrupts-again-long", "interrupts", "the same at more instants, and on one master",
         "evidence.interrupts --again --every 5", r"^\d+ instants, .*", long=True),
)  # fmt: skip
PARTS = (*MODELS, *CLIENT)
RED = {"status": "red"}  # of a part that an interrupt left out


def commit() -> str:
    words = ("git", "describe", "--always", "--dirty", "--exclude=*")
    done = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run(part: Part) -> dict[str, Any]:
    print(f"{part.name}: python -m {part.command}", flush=True)
    output, at, began = FOLDER / f"{part.name}.txt", commit(), time.monotonic()
    (FOLDER / f"{part.name}.json").unlink(missing_ok=True)
    with output.open("w") as file:
        try:
            command = [sys.executable, "-m", *shlex.split(part.command)]
            done = subprocess.run(command, cwd=TOP, stdout=file, stderr=file, timeout=LIMIT_S, check=False)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
            print(f"no end within {LIMIT_S:.0f} s", file=file)
    text = output.read_text(errors="replace")
    result, rows = (re.findall(each, text, re.MULTILINE) if each else [] for each in (part.result, part.rows))
    status = {0: "green" if result or rows else "red", MISSING: "skipped"}.get(code, "red")
    record = {
        "command": f"python -m {part.command}",
        "status": status,
        "result": [re.sub(" {2,}", " ", line) for line in result],
        "rows": rows,
        "seconds": round(time.monotonic() - began),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": at,
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
    }
    (FOLDER / f"{part.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    last = text.splitlines()[-20:]
    print(f"{part.name}: {status} after {record['seconds']} s", flush=True)
    if status == "red":
        print(f"---- the end of {output}:", *last, "----", sep="\n", flush=True)
    elif status == "skipped":
        print(f"skipped: evidence, {part.name}: {' '.join(last[-1:])}", flush=True)
    return record


def run_all(parts: Iterable[Part]) -> int:
    """Run these parts, and print what became of each. 1: one failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen, interrupted = {part.name: part for part in parts}, threading.Event()
    records: dict[str, dict[str, Any]] = {}

    def run_lane(lane: Sequence[Part]) -> None:
        for part in lane:
            if part.name in chosen and not interrupted.is_set():
                records[part.name] = run(chosen[part.name])

    with ThreadPoolExecutor(2) as pool:
        lanes = [pool.submit(run_lane, lane) for lane in (MODELS, CLIENT)]
        try:
            for lane in lanes:
                lane.result()
        except KeyboardInterrupt:
            interrupted.set()
    for name, record in records.items():
        told = record["result"][-1:] or [f"{len(record['rows'])} lines"]
        print(f"{name:<22}{record['status']:<8}{record['seconds']:>6} s  {told[0]}")
    failed = [name for name in chosen if records.get(name, RED)["status"] == "red"]
    print(f"---- evidence: {'failed: ' + ', '.join(failed) if failed else 'no part failed'}")
    return 1 if failed else 0


def publish() -> int:
    """Put the results of the last runs into the pages. 1: one of them failed, and nothing was changed."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    red = [name for name, record in found.items() if record["status"] == "red"]
    if red or not found:
        print(f"not published: {', '.join(red) + ' failed' if red else f'there is no result in {FOLDER}'}")
        return 1
    known = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
    known |= {name: record for name, record in found.items() if record["status"] == "green"}
    known = {part.name: known[part.name] for part in PARTS if part.name in known}
    PUBLISHED.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    environment = os.environ | {"PYTHONPATH": str(TOP)}
    command = [sys.executable, "docs/tools/site_drawings.py"]
    return subprocess.run(command, cwd=TOP, env=environment).returncode


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 no part failed; 1 one did."""
    parser = argparse.ArgumentParser(prog="python -m evidence", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the parts that .ci/run runs")
    parser.add_argument("--long", action="store_true", help="the parts that take hours, too")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS], help="these parts")
    parser.add_argument("--publish", action="store_true", help="put the last results into the pages")
    options = parser.parse_args(words)
    if options.publish:
        return publish()
    if options.only:
        return run_all(part for part in PARTS if part.name in options.only)
    if options.quick:
        short = [replace(part, command=f"{part.command} {part.quick}") for part in PARTS if part.quick]
        return run_all(short)
    return run_all(part for part in PARTS if options.long or not part.long)


if __name__ == "__main__":
    sys.exit(main())
