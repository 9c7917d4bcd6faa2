"""Ctrl-C in front of every line of ours, one after another."""

from __future__ import annotations

import gc
import linecache
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: A trace function, unlike a signal, may raise between the end of a `with` block and its __exit__: the mutex
#: would stay locked. It may also raise at the return of a constant, which no ``except`` around it covers.
#: Not where an event is emitted either: it is marked as emitted first, and an interrupt between the two
#: lines loses the event.
SPARED = re.compile(r"\s*with |\s*return True$|.*\bemit\(")


class Interrupt:
    """KeyboardInterrupt in front of the n-th line that this thread executes in files of rlock's.

    ``where``: which one that was; empty: there are fewer.
    """

    def __init__(self, at: int, files: tuple[str, ...]) -> None:
        self.left = at
        self.files = files
        self.where = ""

    def __call__(self, frame: FrameType, kind: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if os.sep + "rlock" + os.sep not in file or not file.endswith(self.files):
            return None
        if kind == "line" and not SPARED.match(linecache.getline(file, frame.f_lineno)):
            self.left -= 1
            if self.left == 0:
                self.where = f"{os.path.basename(file)}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


@contextmanager
def interrupted(at: int, *files: str) -> Iterator[Interrupt]:
    """Run the body with an interrupt in front of its n-th line in these files; it goes no further."""
    tracer = Interrupt(at, files)
    # Otherwise the interrupt may hit a client of another test, which is collected here.
    gc.disable()
    sys.settrace(tracer)
    try:
        yield tracer
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
        gc.enable()
