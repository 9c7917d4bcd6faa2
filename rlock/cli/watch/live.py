"""The loop: looks in a thread of their own, so that keys are obeyed while a master keeps us waiting."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from .. import exits
from ..scan.look import Scan
from ..scan.reading import ORDERS
from ..scan.snapshot import Snapshot
from .picture import View, draw, everything
from .terminal import Terminal

#: Between two looks the leases count down this often.
FRAME_S = 0.25


class Looks(threading.Thread):
    """Looks at intervals, and tells of each."""

    def __init__(self, scan: Scan, interval: float, told: Callable[[], None]) -> None:
        super().__init__(name="rlock-watch", daemon=True)
        self._survey = scan
        self._interval = interval
        self._told = told
        self._wanted = threading.Event()
        self._wanted.set()
        self._closing = threading.Event()
        self._idle = threading.Event()
        #: The last one.
        self.snapshot: Snapshot | None = None
        #: What ended the looks.
        self.error: Exception | None = None

    def run(self) -> None:
        """Look until `close`; not while paused."""
        due = time.monotonic()
        while not self._closing.is_set():
            try:
                if not self._wanted.is_set():
                    self._survey.rest()
                    self._idle.set()
                    self._wanted.wait()
                    self._idle.clear()
                    due = time.monotonic()
                    continue
                self.snapshot = self._survey.look()
            except Exception as error:
                self.error = error
                self._closing.set()
                self._idle.set()
            self._told()
            # In step with the clock, and not in a hurry after a look that took longer.
            due = max(due + self._interval, time.monotonic())
            while (left := due - time.monotonic()) > 0 and self._wanted.is_set():
                if self._closing.wait(min(left, FRAME_S)):
                    break

    def pause(self, wait_s: float = 0.0) -> None:
        """No more looks; wait for one that is under way."""
        self._idle.clear()
        self._wanted.clear()
        if wait_s:
            self._idle.wait(wait_s)

    def go_on(self) -> None:
        """Look again."""
        self._wanted.set()

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._wanted.set()


class Painter:
    """Lines of rich as what a terminal shows, with as many colours as it has."""

    def __init__(self) -> None:
        # NO_COLOR, TERM and COLORTERM are looked at by rich.
        real = Console()
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            force_terminal=True,
            color_system=real.color_system,  # type: ignore[arg-type]
            no_color=real.no_color,
            width=10_000,
            highlight=False,
            legacy_windows=False,
        )

    def paint(self, lines: Sequence[Text]) -> list[str]:
        """Each line as a string with its control sequences."""
        self._file.seek(0)
        self._file.truncate()
        for line in lines:
            self._console.print(line, overflow="ignore", no_wrap=True, crop=False)
        return self._file.getvalue().split("\n")[: len(lines)]


def live(scan: Scan, view: View, interval: float) -> int:
    """Show it until somebody quits; the exit status."""
    painter = Painter()
    with Terminal() as terminal:
        looks = Looks(scan, interval, terminal.wake)
        looks.start()
        try:
            while True:
                _show(terminal, painter, looks, view)
                frame = FRAME_S if looks.snapshot is not None and not view.paused else math.inf
                for key in terminal.keys(min(frame, interval, 3600.0)):
                    if not obey(view, key, looks.snapshot):
                        return 0
                if terminal.suspending:
                    looks.pause(wait_s=1.0)
                    terminal.suspend()
                if view.paused:
                    looks.pause()
                else:
                    looks.go_on()
                if terminal.ended_by is not None:
                    return exits.SIGNAL + terminal.ended_by
                if terminal.gone:
                    return exits.SIGNAL + 1
                if looks.error is not None:
                    raise looks.error
        finally:
            looks.close()


def print_once(scan: Scan, view: View) -> Snapshot:
    """Look once, and print it on stdout, whatever that is."""
    snapshot = scan.look()
    columns = shutil.get_terminal_size((120, 24)).columns
    console = Console(width=columns, highlight=False)
    for line in everything(snapshot, view, columns, time.time()):
        console.print(line, overflow="ignore", no_wrap=True, crop=False)
    return snapshot


def _show(terminal: Terminal, painter: Painter, looks: Looks, view: View) -> None:
    columns, lines = terminal.size
    snapshot = looks.snapshot
    if snapshot is None:
        told = [Text("asking the masters …" if view.utf8 else "asking the masters ...")]
        picture = [*told, *[Text()] * (lines - 1)]
    else:
        now = snapshot.at if view.paused else time.time()
        picture = draw(snapshot, view, columns, lines, now)
    terminal.draw(painter.paint(picture))


def obey(view: View, key: str, snapshot: Snapshot | None) -> bool:
    """Change what is shown as a key says; False: quit."""
    if view.typing:
        _type(view, key)
        return True
    if view.help:
        view.help = False
        return key not in ("q", "Q")
    if key in ("q", "Q"):
        return False
    if key in ("p", " "):
        view.paused = not view.paused
    elif key == "s":
        orders = list(ORDERS)
        view.order = orders[(orders.index(view.order) + 1) % len(orders)]
    elif key == "?":
        view.help = True
    elif key == "/":
        view.typing = True
    elif key == "escape":
        view.filter = ""
    elif snapshot is not None and key in _STEPS:
        view.move(snapshot, _STEPS[key](view.page))
    return True


_STEPS: dict[str, Callable[[int], int]] = {
    "down": lambda _: 1,
    "j": lambda _: 1,
    "up": lambda _: -1,
    "k": lambda _: -1,
    "page down": lambda page: page,
    "page up": lambda page: -page,
    "home": lambda _: -(10**9),
    "g": lambda _: -(10**9),
    "end": lambda _: 10**9,
    "G": lambda _: 10**9,
}


def _type(view: View, key: str) -> None:
    if key == "enter":
        view.typing = False
    elif key == "escape":
        view.typing, view.filter = False, ""
    elif key == "backspace":
        view.filter = view.filter[:-1]
    elif key == "clear":
        view.filter = ""
    elif len(key) == 1 and key.isprintable():
        view.filter += key


def why_not() -> str | None:
    """Why there can be no live screen here; None: there can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "`rlock watch` needs a terminal: use --once or --json here, or `rlock list`"
    if os.environ.get("TERM", "") in ("", "dumb"):
        return (
            "`rlock watch` needs a terminal that can move its cursor: set TERM, or use --once or `rlock list`"
        )
    return None
