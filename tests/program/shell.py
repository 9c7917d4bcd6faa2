"""`rlock ...` as a process of its own, for tests of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

RLOCK = [sys.executable, "-m", "rlock"]


class Done(NamedTuple):
    code: int  # as a shell sees it: 128 and its number for a signal
    out: str
    err: str


def environment(masters: Sequence[str] = (), **extra: str) -> dict[str, str]:
    """What a process finds: no settings of this machine, the masters, and ``extra``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RLOCK_")}
    kept["RLOCK_CONFIG"] = ""
    if masters:
        kept["RLOCK_MASTERS"] = ",".join(masters)
    return {**kept, **extra}


def done(command: Sequence[str | bytes], **options: Any) -> Done:
    """Run it to its end."""
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if "input" in options:
        options.pop("stdin")
    found = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False, **options)
    assert "Traceback" not in found.stderr, found.stderr
    code = found.returncode
    return Done(code if code >= 0 else 128 - code, found.stdout, found.stderr)


def rlock(*words: str | bytes, masters: Sequence[str] = (), **extra: str) -> Done:
    """Run ``rlock words``; its exit code and what it said."""
    return done([*RLOCK, *words], env=environment(masters, **extra))
