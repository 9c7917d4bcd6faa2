"""A terminal as the live screen needs it: keys one by one, a screen of its own, all put back at the end.

Plain termios and the sequences that every terminal since xterm knows, so it works over ssh and in tmux.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from .keys import Keys

if TYPE_CHECKING:
    from typing_extensions import Self

#: Alternate screen, no cursor, no wrapping of a line that is wider than we think.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
#: How long the bytes of one key may lie apart.
_ESCAPE_S = 0.05
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_HANDLED = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)


class Terminal:
    """The terminal of stdin and stdout. Used by the main thread; `wake` by any."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._keys = Keys()
        self._drawn: list[str] = []
        self._bell, self._rope = os.pipe()
        for end in (self._bell, self._rope):
            os.set_blocking(end, False)
        self._before: dict[int, Any] = {}
        self._attributes: list[Any] | None = None
        #: The signal that is to end us.
        self.ended_by: int | None = None
        self._suspend = self._resumed = False
        #: Nobody is at the other end any more.
        self.gone = False

    def __enter__(self) -> Self:
        for number in _HANDLED:
            self._before[number] = signal.signal(number, self._note)
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _begin(self) -> None:
        self._attributes = termios.tcgetattr(self._in)
        mode = termios.tcgetattr(self._in)
        # Keys one by one and unseen; Ctrl-C and Ctrl-Z stay signals.
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        # Not TCSAFLUSH: what was typed already is meant for us. DRAIN would wait for ever on a frozen line.
        termios.tcsetattr(self._in, termios.TCSANOW, mode)
        self._drawn = []
        self._write(_ENTER)

    def _end(self) -> None:
        if self._attributes is None:
            return
        self._write(_LEAVE)
        try:
            termios.tcsetattr(self._in, termios.TCSANOW, self._attributes)
        except termios.error:
            pass  # hung up: there is nothing to put back
        self._attributes = None

    def _note(self, number: int, _: FrameType | None) -> None:
        if number in _ENDING:
            self.ended_by = number
        elif number == signal.SIGTSTP:
            self._suspend = True
        else:
            # Another size; or somebody stopped us, and may have used the terminal in between.
            self._resumed = self._resumed or number == signal.SIGCONT
            self._drawn = []
        self.wake()

    def wake(self) -> None:
        """Have `keys` return."""
        try:
            os.write(self._rope, b"!")
        except (BlockingIOError, OSError):
            pass

    @property
    def suspending(self) -> bool:
        """Whether Ctrl-Z was pressed; `suspend` obeys it."""
        return self._suspend

    def suspend(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z is meant to; returns when somebody lets us go on."""
        self._suspend = False
        self._end()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
        self._begin()
        self._resumed = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        # A serial line does not tell.
        return found.columns or 80, found.lines or 24

    def keys(self, timeout: float) -> list[str]:
        """Wait for keys, a signal or `wake`, at most ``timeout`` seconds."""
        if self._keys.pending:
            timeout = min(timeout, _ESCAPE_S)
        ready, _, _ = select.select([self._in, self._bell], [], [], max(0.0, timeout))
        if self._bell in ready:
            try:
                os.read(self._bell, 4096)
            except BlockingIOError:
                pass
        if self._in not in ready:
            return self._keys.settle() if self._keys.pending else []
        try:
            data = os.read(self._in, 1024)
        except OSError:
            data = b""
        if not data:
            self.gone = True  # the window was closed: to go on would be to spin
        return self._keys.feed(data)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; only those are sent that have changed, for slow lines."""
        if self._resumed:
            # Stopped by a SIGSTOP, so we could put nothing back; the shell has set a mode of its own.
            self._resumed = False
            self._end()
            self._begin()
        drawn, frame = self._drawn, []
        if len(drawn) != len(lines):
            drawn = [""] * len(lines)
            frame.append("\x1b[2J")
        frame += [
            # Erased first: after a line that is full the last character would go.
            f"\x1b[{row};1H\x1b[0m\x1b[K{line}"
            for row, (line, before) in enumerate(zip(lines, drawn, strict=True), 1)
            if line != before
        ]
        self._drawn = list(lines)
        if frame:
            self._write("".join(frame))

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self.gone = True
