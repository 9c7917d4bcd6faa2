"""The loss signal, asked where another question is under way: by a signal handler, or by a finalizer."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from types import FrameType
from typing import Any

from rlock import LossSignal
from rlock._sync.runtime import Runtime


def test_a_question_before_any_line_of_a_wait_blocks_nothing() -> None:
    def wait() -> None:
        for at in range(1, 30):
            signal, lines = LossSignal(None, time.monotonic, Runtime()), itertools.count(1)

            def handler(
                frame: FrameType, kind: str, _: Any, signal: Any = signal, lines: Any = lines, at: int = at
            ) -> Any:
                if not frame.f_code.co_filename.endswith("_client/runtime.py"):
                    return None
                if kind == "line" and next(lines) == at:
                    sys.settrace(None)
                    signal.set()
                return handler

            sys.settrace(handler)
            signal.wait(0.05)
            sys.settrace(None)
        finished.set()

    finished = threading.Event()
    threading.Thread(target=wait, daemon=True).start()
    assert finished.wait(10.0), "a handler waits for its own thread"
