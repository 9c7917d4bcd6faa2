"""The processes that COMMAND has started, in whichever process group they are."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from contextlib import suppress

_before: set[int] = set()  # children of this process before COMMAND: of a shell that called `exec rlock run`


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (Linux). Otherwise they could not be found."""
    _before.update(_children(os.getpid()))
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def descendants(known: set[int]) -> set[int]:
    """The descendants of this process, without daemons: orphans in a session of their own.

    Processes in ``known`` are no daemons. Each process that is found is added to ``known``.
    """
    ours, found = {*_children(os.getpid())} - _before, set[int]()
    todo = [pid for pid in ours | known if pid in ours & known or _in_our_session(pid)]
    while todo:
        found.add(pid := todo.pop())
        todo += {*_children(pid)} - found
    known |= found
    return found


def _in_our_session(pid: int) -> bool:
    with suppress(OSError):
        return os.getsid(pid) == os.getsid(0)
    return False


def _children(pid: int) -> list[int]:
    if sys.platform != "linux":
        words = ["pgrep", "-P", str(pid)]
        return [*map(int, subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout.split())]
    found: list[int] = []
    for path in glob.iglob(f"/proc/{pid}/task/*/children"):  # of each thread
        with suppress(OSError), open(path, "rb") as children:
            found += map(int, children.read().split())
    return found
