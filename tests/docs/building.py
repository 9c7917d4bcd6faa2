"""The site, built once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from .pages import TOP


class Built(NamedTuple):
    """A site, and what was said while it was built."""

    folder: Path
    code: int
    said: str


def mkdocs(config: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(to)],
        cwd=TOP,
        env={
            **os.environ,
            "PYTHONPATH": str(TOP),
            "NO_MKDOCS_2_WARNING": "true",
            "PYTHONWARNINGS": "default",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def built_once(factory: pytest.TempPathFactory) -> Built:
    """The site of this run. One process builds it; the others, and later modules, find it."""
    run = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent  # what the processes of a run have in common
    folder, code, said = run / "site", run / "site.code", run / "site.said"
    with open(run / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the file, and with the process
        if not code.exists():
            done = mkdocs(TOP / "mkdocs.yml", folder)
            said.write_text(done.stdout + done.stderr, encoding="utf-8")
            # Last: a build that was interrupted is made again, one that failed is not.
            code.write_text(str(done.returncode))
    return Built(folder, int(code.read_text()), said.read_text(encoding="utf-8"))
