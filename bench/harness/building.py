"""A step of a build: a program that is run, and why it failed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.harness.contestant import Failed

#: A package index that does not answer ends a step after this time.
TIMEOUT_S = 300.0
#: What javac, npm and go say of sources, a package-lock.json and a go.sum that are wrong.
OURS = re.compile(
    r"COMPILATION ERROR|npm ci.*in sync|^# contestant|go\.sum entry|updates to go\.(mod|sum)", re.M
)


class Broken(Failed):
    """Our own sources do not build: nobody may take that for a machine without the toolchain."""


def run(command: Sequence[str], limit_s: float = TIMEOUT_S, cwd: Path | None = None) -> str:
    """What it said. Raises `Failed`, or `Broken`, with the line that tells why."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} was not done after {limit_s:g} s") from None
    except FileNotFoundError:
        raise Failed(f"{name} is not installed") from None
    except OSError as error:
        raise Failed(f"{name}: {error}") from None
    if done.returncode:
        kind = Broken if OURS.search(done.stdout) else Failed
        raise kind(f"{name} failed: {reason(done.stdout)}"[:300])
    return done.stdout


def reason(said: str) -> str:
    """The line of it that tells why: the first that is marked as an error, or tells of one; else the last."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", said).splitlines() if line.strip()]
    marks = re.compile(r"^(\[ERROR\]|npm error|npm ERR!)\s*")
    # npm begins with the code, Maven's compiler with a title: neither tells anything.
    empty = re.compile(r"^(code|errno|syscall) |^COMPILATION ERROR")
    marked = [fault for line in lines if marks.match(line) and (fault := marks.sub("", line))]
    telling = [fault for fault in marked if not empty.match(fault)]
    others = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return next(iter(telling or others or lines[-1:]), "it said nothing")
