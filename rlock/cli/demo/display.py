"""The display of a demo: lines of text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

from ..output import utf8
from .state import Progress, State


def is_plain(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether control characters would be noise on this stream."""
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("CI"):
        return True
    return environ.get("TERM", "") in ("", "dumb") or not utf8(stream)


class Lines:
    """One line for each event, and one for the end of each phase."""

    def __init__(self, state: State, stream: TextIO) -> None:
        self._state = state
        self._stream = stream
        self._told = [Progress.AHEAD for _ in state.phases]

    def event(self, text: str) -> None:
        """Print it."""
        self._stream.write(f"[{time.monotonic() - self._state.began:5.1f} s] {text}\n")
        # A pipe is block-buffered: without this a person at `rlock demo | tee log` sees nothing for 20 s.
        self._stream.flush()

    def tick(self) -> None:
        """Print a phase's figures when it ends."""
        for i, phase in enumerate(self._state.phases):
            changed, self._told[i] = self._told[i] is not phase.progress, phase.progress
            if changed and phase.progress in (Progress.DONE, Progress.FAILED):
                self.event(f"{phase.title}: {phase.figures} [{phase.progress.value}]")

    def __enter__(self) -> None:
        self.event(self._state.headline)

    def __exit__(self, *_: object) -> None:
        self.tick()
