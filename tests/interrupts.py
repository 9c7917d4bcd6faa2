"""Ctrl-C in front of every line of ours, one after another."""

from __future__ import annotations

import gc
import linecache
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

#: A trace function, unlike a signal, may raise between the end of a `with` block and its __exit__: the mutex
#: would stay locked. It may also raise at the return of a constant, which no ``except`` around it covers.
#: Not where an event is emitted either: it is marked as emitted first, and an interrupt between the two
#: lines loses the event.
SPARED = re.compile(r"\s*with |\s*return True$|.*\bemit\(")


class Interrupt(AbstractContextManager["Interrupt"]):
    """KeyboardInterrupt in front of the n-th line of the body in files of rlock's; the body goes no further.

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

    def __enter__(self) -> Interrupt:
        # Otherwise the interrupt may hit a client of another test, which is collected here.
        gc.disable()
        self._before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(self._before)
        gc.enable()
        return kind is KeyboardInterrupt


def every_line(*files: str, least: int = 10) -> Iterator[Interrupt]:
    """An interrupt for each line in these files, one after another. The last one does not come."""
    for at in range(1, 500):
        tracer = Interrupt(at, files)
        yield tracer
        if not tracer.where:
            assert at > least
            return
    raise AssertionError("it takes longer than that")
