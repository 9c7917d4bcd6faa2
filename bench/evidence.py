"""The whole evidence for docs/guarantees.md, in one run: `make evidence`.

    python -m bench.evidence [--folder evidence] [--only TEXT] [--soak-minutes 1.5] [--seeds 3000]

Two lanes run side by side. What a part printed is in the folder, with the table as JSON. Exit status: 0 every
part came out as it should; 1 one did not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
#: The exit status of a part that this machine has not the means for.
LEFT_OUT = 77
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


@dataclass
class Part:
    """One command, and what is told of it."""

    title: str
    command: tuple[str, ...]
    #: Out of what it printed, the figures for the table.
    figures: Callable[[str], str]
    took_s: float = 0.0
    passed: bool = False
    left_out: bool = False
    told: str = ""
    process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End it, with all that it has started, as Ctrl-C would."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            self.process.wait(30)

    def run(self, folder: Path) -> None:
        """Run it, and keep what it prints."""
        began = time.monotonic()
        log = folder / (re.sub(r"\W+", "-", self.title).strip("-") + ".log")
        with log.open("w") as output:
            # A process group of its own, deaf to nothing: Ctrl-C for us must not look like a fault to it.
            process = self.process = subprocess.Popen(
                [sys.executable, *self.command],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=TOP,
                start_new_session=True,
                preexec_fn=_hear,
            )
            self.passed = process.wait() == 0
        self.took_s = time.monotonic() - began
        text = log.read_text(errors="replace")
        if process.returncode == LEFT_OUT:
            self.left_out, self.told = True, text.strip().splitlines()[-1]
            return
        try:
            self.told = self.figures(text)
        except (AttributeError, IndexError, ValueError):
            self.told, self.passed = f"it did not print what it should: {log}", False


def _hear() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _tests(text: str) -> str:
    found = re.findall(r"^(\d+ (?:passed|failed).*?) in ", text, re.MULTILINE)
    return str(found[-1])


def _line(pattern: str) -> Callable[[str], str]:
    """The last line that matches; its first group."""
    return lambda text: str(re.findall(pattern, text, re.MULTILINE)[-1]).strip()


def _model(text: str) -> str:
    safe = re.findall(r" safe +([\d,]+)", text)
    states = sum(int(count.replace(",", "")) for count in safe)
    violated = len(re.findall(r" VIOLATED ", text))
    return f"{len(safe)} scopes safe ({states:,} states), {violated} broken rules violated"


def _soak(text: str) -> str:
    def value(key: str) -> str:
        return _line(rf"^  {key} +(.+)$")(text)

    verdict = value("verdict")
    return f"{value('holds')} holds, {value('faults').partition(':')[0]} faults, {verdict}"


def _counter(text: str) -> str:
    lost = re.findall(r"^  lost updates, (.+?) +(\d+ of \d+ \([\d.]+ %\))", text, re.MULTILINE)
    return "; ".join(f"{cell}: {figures}" for cell, figures in lost) or lost[0][0]


def _controls(text: str) -> str:
    noticed = len(re.findall(r"RED after [\d.]+ s: [^(\n]*green,", text))
    return f"{noticed} broken rules noticed; {text.strip().splitlines()[-1]}"


def lanes(options: argparse.Namespace) -> tuple[list[Part], list[Part]]:
    """What there is to run: what computes and the tests, and the soaks."""
    minutes = ("--minutes", f"{options.soak_minutes:g}")
    soak = ("-m", "bench.soak", *minutes)
    computing = [
        Part("model, complete search", ("-m", "tests.model"), _model),
        Part(
            "simulation, random schedules",
            ("-m", "tests.simulation", "--seeds", str(options.seeds)),
            _line(r"^(\d+ schedules .*)$"),
        ),
        Part(
            "simulation, broken rules",
            (*PYTEST, "tests/simulation/test_controls.py", "tests/simulation/test_directed.py"),
            _tests,
        ),
        Part("every fault, real masters", (*PYTEST, "tests/faults", "tests/masters"), _tests),
    ]
    masters = [
        Part("soak, 3 masters, ttl 2 s", (*soak, "--masters", "3", "--ttl", "2"), _soak),
        Part("soak, 5 masters, ttl 10 s", (*soak, "--masters", "5", "--ttl", "10"), _soak),
        Part("lost updates under pauses", ("-m", "bench.soak", "--counter", "--minutes", "0.7"), _counter),
        Part("soak, broken rules", ("-m", "bench.soak", "--controls"), _controls),
    ]
    return tuple([part for part in lane if options.only in part.title] for lane in (computing, masters))  # type: ignore[return-value]


def main() -> None:
    """Run the lanes, print each part as it ends, and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=TOP / "evidence", help="where the logs go")
    parser.add_argument("--only", default="", help="parts whose title holds this")
    parser.add_argument("--soak-minutes", type=float, default=1.5, help="for each of the two soaks")
    parser.add_argument("--seeds", type=int, default=3000, help="schedules of the simulation")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    both = lanes(options)
    parts = [part for lane in both for part in lane]

    def lane(parts: list[Part]) -> None:
        for part in parts:
            part.run(options.folder)
            print(f"{part.took_s:6.0f} s  {part.title}: {part.told}", flush=True)

    threads = [threading.Thread(target=lane, args=(parts,), daemon=True) for parts in both]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        for part in parts:
            part.stop()
    took_s = time.monotonic() - began
    print(f"\n{'part':<31}{'seconds':>8}  {'as it should':<13}figures")
    for part in parts:
        verdict = "left out" if part.left_out else "yes" if part.passed else "NO"
        print(f"{part.title:<31}{part.took_s:>8.0f}  {verdict:<13}{part.told}")
    print(f"{'in all':<31}{took_s:>8.0f}")
    rows = [{"part": p.title, "seconds": p.took_s, "passed": p.passed, "figures": p.told} for p in parts]
    (options.folder / "evidence.json").write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(0 if parts and all(part.passed or part.left_out for part in parts) else 1)


if __name__ == "__main__":
    main()
