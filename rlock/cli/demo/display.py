"""The displays of a demo: a dashboard on a terminal, lines of plain text everywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from .state import Progress, State

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

FRAME_S = 0.125

#: Mark and style of an phase.
MARKS = {
    Progress.AHEAD: (" ", "dim"),
    Progress.RUNNING: ("▶", "bold cyan"),
    Progress.DONE: ("✔", "green"),
    Progress.FAILED: ("✘", "bold red"),
}


def is_plain(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether control characters would be noise on this stream."""
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("CI"):
        return True
    if environ.get("TERM", "") in ("", "dumb"):
        return True
    return (stream.encoding or "").lower().replace("-", "") != "utf8"


class Lines:
    """One line for each event, and one for the end of each phase."""

    def __init__(self, state: State, stream: TextIO) -> None:
        self._state = state
        self._stream = stream
        self._told = [Progress.AHEAD for _ in state.phases]

    def event(self, text: str) -> None:
        """Print it."""
        self._stream.write(f"[{self._state.elapsed:5.1f} s] {text}\n")
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


class Dashboard:
    """The dashboard; its last picture stays."""

    def __init__(self, state: State) -> None:
        from rich.console import Console
        from rich.live import Live

        self._state = state
        self.console = Console(highlight=False)
        self._live = Live(
            console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._drawn_at = 0.0

    def event(self, text: str) -> None:
        """Show it among the last ones."""
        self._state.events.append((self._state.elapsed, text))
        self._draw()

    def tick(self) -> None:
        """Draw, if the last picture is old enough."""
        if time.monotonic() - self._drawn_at >= FRAME_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        self._live.update(self._picture(), refresh=True)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._live.stop()

    # -- the picture -------------------------------------------------------------------------------

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.rule import Rule
        from rich.table import Table
        from rich.text import Text

        state = self._state
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right")
        head.add_row(Text(state.headline, style="bold"), Text(f"{state.elapsed:.1f} s", style="dim"))
        sides = Table.grid(expand=True, padding=(0, 2, 0, 0))
        sides.add_column(ratio=2)
        sides.add_column(ratio=3)
        sides.add_row(Rule("masters", align="left", style="dim"), Rule("workers", align="left", style="dim"))
        sides.add_row(self._masters(), self._workers())
        events = [
            Text.assemble((f"{at:6.1f} s  ", "dim"), text, no_wrap=True, overflow="ellipsis")
            for at, text in state.events
        ]
        # A picture that does not jump; and its last line is empty, or the ^C that a terminal prints at its
        # end would begin a new one, and the next picture would leave the first line of this one behind.
        events += [Text()] * ((state.events.maxlen or 0) - len(state.events) + 1)
        return Group(head, self._phases(), sides, Rule("events", align="left", style="dim"), *events)

    def _phases(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for phase in self._state.phases:
            mark, style = MARKS[phase.progress]
            table.add_row(Text(mark, style=style), Text(phase.title, style=style), phase.figures)
        return table

    def _masters(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1, 0, 0))
        for master in self._state.masters:
            told, style = ("up", "green") if master.running else ("killed", "bold red")
            table.add_row(Text(f":{master.port}", style=style), Text(told, style=style))
        return table

    def _workers(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        workers = self._state.workers
        sections = Counter(attempt.process for attempt in workers.history.attempts)
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column()
        table.add_column(justify="right", min_width=5)
        table.add_column(no_wrap=True)
        for worker in workers.workers:
            done = sections[worker.name]
            if worker.killed_at is not None:
                state, style = "killed -9", "bold red"
            elif workers.inside(worker):
                state, style = "inside", "bold yellow"
            elif workers.is_idle(worker):
                state, style = "idle", "dim"
            else:
                state, style = "wants in", "cyan"
            table.add_row(worker.name, f"{done:,}", Text(state, style=style))
        return table


Display = Lines | Dashboard


def display(state: State, stream: TextIO) -> Display:
    """The dashboard on a terminal, lines elsewhere. The dashboard stands on stdout only."""
    if stream is not sys.stdout or is_plain(stream, os.environ):
        return Lines(state, stream)
    return Dashboard(state)
