"""Porcupine, the linearizability checker of evidence/porcupine: built once, and asked for its verdict."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent


class Verdict(NamedTuple):
    legal: bool
    told: str


class MissingError(Exception):
    """There is no Go on this machine, or it cannot build Porcupine."""


class Porcupine:
    """The binary, built in a folder. MissingError: it cannot be."""

    def __init__(self, folder: Path) -> None:
        self._binary = folder.resolve() / "porcupine"
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            raise MissingError("no Go on the path: Porcupine is not run")
        command = [go, "build", "-o", str(self._binary), "."]
        built = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        if built.returncode:
            raise MissingError(f"Porcupine cannot be built: {built.stderr[-300:]}")

    def judge(self, history: Path) -> Verdict:
        """Its verdict on a history in EDN. RuntimeError: it has none."""
        done = subprocess.run([self._binary, history], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"no verdict on {history}: {done.stdout}{done.stderr}")
        words = done.stdout.split()
        if words[1] != {0: "Ok,", 1: "Illegal,"}[done.returncode]:
            raise RuntimeError(f"{done.stdout} and exit status {done.returncode}")
        return Verdict(done.returncode == 0, done.stdout.strip())
