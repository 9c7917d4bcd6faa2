"""The processes that COMMAND has started, in whichever process group they are."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (Linux). Otherwise they could not be found."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def descendants(known: set[int]) -> set[int]:
    """The descendants of this process that run, without daemons: orphans in a session of their own.

    One of ``known`` is no daemon. All that are found are known from then on.
    """
    parents = dict(_parents())
    found = {pid for pid in known if parents.get(pid) in (os.getpid(), 1)}
    found |= {pid for pid, parent in parents.items() if parent == os.getpid() and _in_our_session(pid)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    known |= found
    return found


def _in_our_session(pid: int) -> bool:
    with suppress(OSError):
        return os.getsid(pid) == os.getsid(0)
    return False


def _parents() -> Iterator[tuple[int, int]]:
    """Each process that is no zombie, and its parent."""
    if sys.platform != "linux":
        words = ["ps", "-A", "-o", "pid=,ppid=,stat="]
        told = subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout
        rows = [line.split()[:3] for line in told.splitlines()]
        yield from ((int(pid), int(parent)) for pid, parent, state in rows if state[:1] != b"Z")
        return
    for path in glob.iglob("/proc/[0-9]*/stat"):
        with suppress(OSError), open(path, "rb") as stat:
            pid, _, rest = stat.read().partition(b" ")
            status, parent, *_ = rest.rpartition(b")")[2].split()
            if status not in b"ZX":
                yield int(pid), int(parent)
