"""The loop of `rlock watch`: look, draw, obey keys, and give the terminal back whatever ends it."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from rich.console import Console
from rich.live import Live

from .. import exits
from ..scan.look import Scan
from ..scan.reading import ORDERS
from .tables import View, picture

#: Between two looks the leases count down this often. Seconds.
FRAME_S = 0.25


def live(scan: Scan, view: View, interval: float) -> None:
    """Show the locks until the user quits."""
    console = Console(highlight=False, legacy_windows=False)
    with _keys_unechoed(), Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            due = time.monotonic() + interval
            snapshot = scan.look()
            while True:
                view = replace(view, width=console.width, height=console.height)
                screen.update(picture(snapshot, view, time.time()), refresh=True)
                left = due - time.monotonic()
                if left <= 0:
                    break
                keys = _keys(min(left, FRAME_S))
                if "q" in keys.lower():
                    return
                if "s" in keys:
                    orders = list(ORDERS)
                    view = replace(view, order=orders[(orders.index(view.order) + 1) % len(orders)])


def why_not() -> str | None:
    """Why there can be no live screen here; None: there can."""
    if sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        return None
    return "`rlock watch` needs a terminal that moves its cursor: use --once or --json here, or `rlock list`"


@contextmanager
def _keys_unechoed() -> Iterator[None]:
    """Keys come one by one and are not echoed; signals end the loop in the way of Ctrl-C."""
    before = termios.tcgetattr(sys.stdin)
    handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    # Ctrl-Z would leave the shell on our screen, with keys that are not echoed.
    handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        # Not TCSAFLUSH: keys that were typed already are meant for us.
        tty.setcbreak(sys.stdin, termios.TCSANOW)
        yield
    finally:
        try:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
        except termios.error:
            pass  # the terminal was closed: there is nothing to give back
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    # An exception, and not the default action: the terminal is given back on the way.
    raise SystemExit(exits.SIGNAL + number)


def _keys(timeout: float) -> str:
    """The characters that were typed within this time."""
    if not select.select([sys.stdin], [], [], timeout)[0]:
        return ""
    typed = os.read(sys.stdin.fileno(), 1024)
    if not typed:
        raise SystemExit(exits.SIGNAL + signal.SIGHUP)  # the window was closed: to go on would be to spin
    # The letters of an escape sequence, as of an arrow key, are no commands.
    return re.sub(rb"\x1b(\[[0-?]*[ -/]*[@-~]|O.)?", b"", typed).decode("utf-8", "ignore")
