"""`rlock ...` in a process of its own, as a user sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

RLOCK = [sys.executable, "-m", "rlock"]


def environment(urls: Sequence[str], **extra: str) -> dict[str, str]:
    """Ours, with these masters and no settings file of the machine's."""
    return {**os.environ, "RLOCK_MASTERS": ",".join(urls), "RLOCK_CONFIG": "", "RLOCK_TTL": "2", **extra}


def ask(urls: Sequence[str], *words: str, **extra: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    done = subprocess.run(
        [*RLOCK, *words],
        env=environment(urls, **extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def one_line(err: str) -> bool:
    """Whether there is one line on stderr, which is ours."""
    return err.startswith("rlock: ") and err.count("\n") == 1
